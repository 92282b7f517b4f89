// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/node_count.h"

#include "treadle/tir/stmt_functor.h"

namespace treadle::tir {
namespace {

class NodeCounter : public StmtExprVisitor {
 public:
  explicit NodeCounter(int64_t limit) : limit_(limit) {}
  int64_t nodes = 0;

 protected:
  void VisitExpr(const PrimExpr& e) override {
    if (++nodes <= limit_) StmtExprVisitor::VisitExpr(e);
  }
  void VisitStmt(const Stmt& s) override {
    if (nodes <= limit_) StmtExprVisitor::VisitStmt(s);
  }

 private:
  int64_t limit_;
};

template <typename Node>
int64_t Count(const Node& node, int64_t limit) {
  NodeCounter counter(limit);
  counter(node);
  return counter.nodes;
}

}  // namespace

int64_t CountNodes(const PrimExpr& e, int64_t limit) { return Count(e, limit); }
int64_t CountNodes(const Stmt& s, int64_t limit) { return Count(s, limit); }

}  // namespace treadle::tir
