# SPDX-License-Identifier: BSD-3-Clause
"""The changes that can be made to a C file, found in its syntax tree (libclang), so that nearly all of them compile."""
import os
import re
import subprocess

try:
    from clang import cindex
    from clang.cindex import CursorKind as K
except ImportError:
    raise SystemExit("scripts/mutate: python3-clang is not installed (scripts/deps mutate)") from None

# What a comparison, an operator, an assignment becomes: one mutant for each.
INSTEAD = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
    "+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("/",), "<<": (">>",), ">>": ("<<",), "&": ("|",),
    "|": ("&",), "^": ("|",), "&&": ("||",), "||": ("&&",), "+=": ("-=", "="), "-=": ("+=", "="), "*=": ("+=",),
    "/=": ("*=",), "|=": ("&=", "="), "&=": ("|=", "="), "^=": ("|=",), "<<=": (">>=",), ">>=": ("<<=",),
    "++": ("--",), "--": ("++",),
}
KIND = {**dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), "comparison"), **dict.fromkeys(("&&", "||"), "logic")}
FENCE = re.compile(r"fence|barrier")
COUNTED = re.compile(r"(^|_)(get|put|ref|unref|hold|drop|take|release|pin|unpin|retain|free|unmap)(_|$)")
# Nothing that a program could notice: what is said to a log, and what only states what must be so.
UNSEEN = re.compile(r"(assert|static_assert|_Static_assert|rr_(error|warn|info|debug|log_write)|RR_LOG\w*|RR_PROBE\w*|\(void\)\w+$)\b")
NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)")


class Mutant:
    """Bytes START to END of the file become NEW."""

    def __init__(self, path, text, function, kind, start, end, new):
        self.path, self.function, self.kind = path, function, kind
        self.start, self.end, self.new = start, end, new
        self.old = text[start:end]
        self.line = text.count("\n", 0, start) + 1
        begin = text.rfind("\n", 0, start) + 1
        stop = text.find("\n", start)
        self.source = text[begin:stop].strip()
        self.column = start - begin - (len(text[begin:stop]) - len(text[begin:stop].lstrip()))

    def key(self):
        """Names it as long as its line is as it is, wherever the line goes."""
        old, new = (re.sub(r"\s+", " ", t) for t in (self.old, self.new))
        return f"{self.path} {self.function} | {self.source} | {self.column}: {old} -> {new}".rstrip()

    def __str__(self):
        old, new = (re.sub(r"\s+", " ", t) for t in (self.old, self.new))
        return f"{self.path}:{self.line} {self.function}(): {self.kind}: {old} -> {new}   in: {self.source}"

    def apply(self, text):
        return text[:self.start] + self.new + text[self.end:]


def between(a, b, text):
    """What stands between two operands: the operator, and where it is; None where a macro makes it up."""
    start, end = a.extent.end.offset, b.extent.start.offset
    op = text[start:end].strip() if start <= end else ""
    return (op, start + text[start:end].index(op)) if op in INSTEAD else None


class Finder:
    def __init__(self, path, text):
        self.path, self.text, self.found, self.function = path, text, {}, ""

    def add(self, kind, start, end, new):
        if text_ok(self.text[start:end]) and self.text[start:end] != new:
            self.found.setdefault((start, end, new), Mutant(self.path, self.text, self.function, kind, start, end, new))

    def replace(self, cursor, kind, form):
        """FORM has the cursor's own text for {}."""
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        self.add(kind, start, end, form.format(self.text[start:end]))

    def visit(self, cursor, parents):
        kind = cursor.kind
        if kind == K.FUNCTION_DECL:
            self.function = cursor.spelling
        handler = {K.BINARY_OPERATOR: self.binary, K.COMPOUND_ASSIGNMENT_OPERATOR: self.binary, K.UNARY_OPERATOR: self.unary,
                   K.INTEGER_LITERAL: self.constant, K.IF_STMT: self.condition, K.CONDITIONAL_OPERATOR: self.condition,
                   K.COMPOUND_STMT: self.statements, K.RETURN_STMT: self.returned}.get(kind)
        if handler:
            handler(cursor, parents)
        for child in cursor.get_children():
            self.visit(child, parents + [cursor])

    def binary(self, cursor, parents):
        a, b = list(cursor.get_children())
        found = between(a, b, self.text)
        if not found:
            return
        op, at = found
        for new in INSTEAD[op]:
            self.add(KIND.get(op, "arithmetic"), at, at + len(op), new)
        if op in ("&&", "||"):    # one of the two decides alone
            start, end = cursor.extent.start.offset, cursor.extent.end.offset
            for side in (a, b):
                self.add("logic", start, end, "(" + self.text[side.extent.start.offset:side.extent.end.offset] + ")")

    def unary(self, cursor, parents):
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        text = self.text[start:end]
        for op in ("++", "--"):
            if text.startswith(op):
                self.add("arithmetic", start, start + 2, INSTEAD[op][0])
            elif text.endswith(op):
                self.add("arithmetic", end - 2, end, INSTEAD[op][0])
        if text.startswith("!") and not text.startswith("!!"):
            self.add("logic", start, start + 1, "!!")
        elif text[:1] in ("~", "-") and text[:2] != "--":
            self.add("arithmetic", start, start + 1, "")

    def constant(self, cursor, parents):
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        m = NUMBER.fullmatch(self.text[start:end])
        sized = parents[-1].kind in (K.VAR_DECL, K.FIELD_DECL) and "[" in parents[-1].type.spelling
        if not m or sized or not self.function or any(p.kind == K.ENUM_CONSTANT_DECL for p in parents):
            return
        value = int(m[1], 0) if m[1] == "0" or not m[1].startswith("0") or m[1][1:2] in "xX" else int(m[1], 8)
        self.add("constant", start, end, f"{value + 1}{m[2]}")
        if value > 1:
            self.add("constant", start, end, f"{value - 1}{m[2]}")
        elif value == 1:
            self.add("constant", start, end, f"0{m[2]}")

    def condition(self, cursor, parents):
        first, *branches = cursor.get_children()
        start, end = cursor.extent.start.offset, first.extent.end.offset
        written = self.text.startswith("if", start) if cursor.kind == K.IF_STMT else \
            self.text[end:].lstrip(") \t\n").startswith("?")
        if not written:    # in a macro
            return
        self.replace(first, "condition", "!({})")
        if cursor.kind == K.IF_STMT:
            for branch in branches:
                self.statement(branch)

    def statements(self, cursor, parents):
        for child in cursor.get_children():
            self.statement(child)
        if parents and parents[-1].kind == K.IF_STMT:
            self.early(list(cursor.get_children())[-1:])

    def statement(self, cursor):
        """One that is not there any more."""
        text = self.text[cursor.extent.start.offset:cursor.extent.end.offset]
        if UNSEEN.match(text):
            return
        if cursor.kind == K.RETURN_STMT:
            return
        if cursor.kind == K.CALL_EXPR:
            name = cursor.spelling
            kind = "fence" if FENCE.search(name) else "refcount" if COUNTED.search(name) else "statement"
        elif cursor.kind == K.COMPOUND_ASSIGNMENT_OPERATOR or (cursor.kind == K.UNARY_OPERATOR and ("++" in text or "--" in text)):
            kind = "statement"
        elif cursor.kind == K.BINARY_OPERATOR:
            kind = "statement"
        elif re.match(r"atomic_\w+\(", text):    # a macro of <stdatomic.h>
            kind = "fence" if FENCE.search(text) else "refcount" if "fetch_" in text else "statement"
        else:
            return
        self.replace(cursor, kind, "(void)0")

    def early(self, last):
        if last and last[0].kind == K.RETURN_STMT:
            self.replace(last[0], "early return", "(void)0")

    def returned(self, cursor, parents):
        if parents[-1].kind == K.IF_STMT:
            self.early([cursor])
        value = list(cursor.get_children())
        if value and value[0].type.get_canonical().kind in (cindex.TypeKind.BOOL, cindex.TypeKind.INT):
            text = self.text[value[0].extent.start.offset:value[0].extent.end.offset]
            result = next((p.result_type.spelling for p in parents if p.kind == K.FUNCTION_DECL), "")
            if result in ("bool", "_Bool") and text:
                self.replace(value[0], "return", "!({})")


def text_ok(text):
    return text.count("(") == text.count(")") and "#" not in text


def read(path):
    """The file; a character is a byte, as clang counts."""
    with open(path, encoding="latin-1", newline="") as f:
        return f.read()


def write(path, text):
    with open(path, "w", encoding="latin-1", newline="") as f:
        f.write(text)


def mutants_of(path, flags):
    """All mutants of the file."""
    text = read(path)
    unit = cindex.Index.create().parse(path, args=flags)
    errors = [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        raise SystemExit(f"scripts/mutate: {path} is not understood: {errors[0]}")
    finder = Finder(path, text)
    for top in unit.cursor.get_children():
        if top.location.file and top.location.file.name == path:
            finder.function = ""
            finder.visit(top, [unit.cursor])
    return list(finder.found.values())


def flags(tree):
    """For clang's parser: as the Makefile compiles, and where clang has its own headers."""
    own = subprocess.run(["clang", "-print-resource-dir"], capture_output=True, text=True, check=True).stdout.strip()
    return ["-std=gnu11", "-I.", "-I" + os.path.join(tree, "gen"), "-D_GNU_SOURCE", '-DRR_VERSION="mutant"', "-fPIC",
            "-DRR_HAVE_TIRPC", "-I/usr/include/tirpc", '-DRR_LIBDIR="/usr/local/lib"', "-isystem", os.path.join(own, "include")]
