# SPDX-License-Identifier: Apache-2.0
"""The messages of errors that users can cause, read from the sources: C++'s `throw SomeError(..)` and the functions that
readers and checks throw by (`Fail`, `Refuse`, ..), Python's `raise`."""
import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Exit status by class; what isn't here is wrong use.
STATUS = {"UnsupportedOpError": 3, "ModelFormatError": 4, "RuntimeError": 5, "VerifyError": 1, "RunTimeout": 5,
          "RunCancelled": 5}
CODES = {"kCheckFailed": 1, "kUsage": 2, "kUnsupported": 3, "kFormat": 4, "kRuntime": 5}
PLACES = [("Command line", ["src/cli"]), ("Reading models", ["src/frontend"]),
          ("Operators, types and schedules",
           ["src/relay", "src/ops", "src/ir", "src/arith", "src/te", "src/tir", "src/schedule"]),
          ("Compiling", ["src/driver", "src/passes", "src/targets", "src/external", "src/report", "src/python"]),
          ("Tuning", ["src/tune"]), ("Loading and running", ["src/runtime", "src/base", "include"]),
          ("Python", ["python/treadle"])]
THROWS = re.compile(r"\bthrow (?:\w+::)*(\w+)\(|\b(?:Fail|FailAt|FailRead|Refuse|refuse|Bad|Invalid|Malformed)\(|"
                    r"\bstd::string (?:message|reason|problem|why) = StrCat\(|"
                    r"\breturn StrCat\((?=\"(?:expected |the file|there is no |files can't|nothing can))")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
ESCAPES = {r"\n": "\n", r"\"": '"', r"\\": "\\", r"\t": " "}


def arguments(text, start):
    """The text between the bracket at `start` and the one that closes it."""
    depth, at = 0, start
    while at < len(text):
        literal = LITERAL.match(text, at)
        if literal:
            at = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1:at]
        at += 1
    return ""


def joined(parts):
    """Literals, with ".." for what stands between them."""
    text = re.sub(r"(\.\.)+(?=\.\.)", "", "".join(parts))
    return re.sub(r"\.\.(\.\.)+", "..", text).strip()


def literals(inside):
    """The parts of C++'s arguments that make a text; what braces hold (lists of names to choose from) is no part of it."""
    inside = re.sub(r"\{[^{}]*\}", " x ", inside)
    parts, end = [], 0
    for literal in LITERAL.finditer(inside):
        between = re.sub(r"\bStrCat\b|\bstd::string\b", "", inside[end:literal.start()])
        if between.strip() == ":" and parts:  # condition ? "one" : "other"
            parts.append("/")
        elif re.search(r"[^\s,+?:()]", between):
            parts.append("..")
        parts.append(re.sub(r"\\.", lambda escape: ESCAPES.get(escape.group(), ""), literal.group(1)))
        end = literal.end()
    if parts and re.search(r"[^\s,()]", re.sub(r"(treadle::)?ExitCode::\w+", "", inside[end:])):
        parts.append("..")
    return parts


def of_cpp(text):
    """(class, status, message) of each throw; of helpers that throw the class is "", as it is their file's."""
    for found in THROWS.finditer(text):
        kind, inside = found.group(1) or "", arguments(text, found.end() - 1)
        if kind and (not re.search("Error|RunTimeout|RunCancelled", kind) or kind == "InternalError"):
            continue
        code = re.search(r"ExitCode::(\w+)", inside)
        status = CODES.get(code.group(1), 2) if code else STATUS.get(kind, 2) if kind else ""
        yield kind, status, joined(literals(inside))


def text_of(node):
    """The parts of a Python expression that makes a text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [part for value in node.values for part in text_of(value)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return [".."]


def of_python(text):
    for node in ast.walk(ast.parse(text)):
        call = node.exc if isinstance(node, ast.Raise) else None
        if not isinstance(call, ast.Call) or not call.args:
            continue
        kind = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if re.search("Error|Invalid|NoSuchFile|Fail", kind) and kind not in ("AttributeError", "InternalError"):
            yield kind, STATUS.get(kind, 2), joined(text_of(call.args[0]))


def messages():
    """By place: sorted rows (message, help, class, status)."""
    for place, folders in PLACES:
        rows = set()
        for path in (file for folder in folders for file in sorted((ROOT / folder).rglob("*"))):
            if path.suffix not in (".cc", ".h", ".py"):
                continue
            source = path.read_text(encoding="utf-8")
            for kind, status, text in (of_python if path.suffix == ".py" else of_cpp)(source):
                message, _, advice = text.partition("\nhelp: ")
                if len(re.findall("[a-z]{2,}", message)) >= 2:
                    rows.add((" ".join(message.split()), " ".join(advice.split()), kind, status))
        yield place, sorted(rows)


def page():
    """The messages as Markdown."""
    def cell(text):
        return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")

    pages = ["# Messages\n\nThe errors that a user can cause, as the sources have them; `..` stands for names, numbers and "
             "reasons. What to do about the most frequent ones: [troubleshooting](troubleshooting.md). The number is the exit "
             "status of the command line; the class is that of Python's exception (`treadle.error`) and of "
             "`TreadleGetLastErrorKind` in C.\n"]
    for place, rows in messages():
        pages.append(f"## {place}\n\n| message | class | status |\n|---|---|---|")
        pages += [f"| {cell(message)}{'<br>help: ' + cell(advice) if advice else ''} | {kind} | {status} |"
                  for message, advice, kind, status in rows]
        pages.append("")
    return "\n".join(pages)
