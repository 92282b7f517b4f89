/* SPDX-License-Identifier: Apache-2.0
 * Embeds the file TREADLE_TEST_BLOB as the blob of a model. */
__asm__(
    ".section .rodata.treadle,\"a\",@progbits\n"
    ".balign 4096\n"
    ".globl __treadle_blob\n"
    ".type __treadle_blob, @object\n"
    "__treadle_blob:\n"
    ".incbin \"" TREADLE_TEST_BLOB
    "\"\n"
    ".size __treadle_blob, .-__treadle_blob\n"
    ".previous\n");
