"""Proofs from the text alone that a mutant computes what the script does; the others are explained by hand.

These edits are proved to change nothing:

- the repetition of a statement whose second turn does what the first has done: an assignment that has no other effect
  and reads nothing that it binds, a call that sets something to its arguments;
- edits of the value of an assignment to names that nothing reads;
- two spellings of one thing: of the only param group, of a variance;
- two flags in each other's place that are read as `a or b` alone;
- the edits of a condition, and of what only it reads, that chooses between two ways to compute the same bits: rows as
  tensors or as numpy's views of them, a gradient bound anew or copied into the old one;
- dropping what is done for distributions of a kind that the script never samples; drawing as a graph does, outside of
  graphs too, what torch draws by the same formula;
- whether a function is compiled, or captured, as long as what is captured is called with inputs of one size;
- which of two forms of the backward pass sets the gradients, and what they were before, where all are set anew;
- a learning rate that is a float where it was a tensor of float64, or the contrary, where no graph holds on to it.

Each rests on what a few functions are known to do, as said where they are named, or as `test_mutants.py` shows. What
raises instead is seen in a run.

`score.py --proofs` runs what is proved all the same: one that is killed in spite of its proof shows a mistake here.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable

from generate import Mutant

from transformer.syntax.templates import render

PURE_METHODS = frozenset(
    "abs actor actor_mean argmax bool chunk clamp clone copy cpu critic cuda detach dim exp expand_as flatten float "
    "get_value get_wrapper_attr int is_compiling item items join keys log log_prob entropy long max mean min numpy "
    "parameters prod ravel "
    "reshape sigmoid split sqrt squeeze state_dict std sum tanh to tolist type unsqueeze values var view".split()
)
"""Methods of tensors, arrays, dictionaries, texts, distributions and networks that change and draw nothing."""
PURE_FUNCTIONS = frozenset(
    "Categorical F.mse_loss Normal Ring TensorDict actor all any critic_a critic_b gae get_value dict enumerate float "
    "hasattr int isinstance len list max min policy range slow_a slow_actor slow_b reversed sorted str sum tuple type "
    "vars zip inspect.unwrap nn.Parameter np.array np.logical_or np.mean np.prod np.stack np.var np.zeros optim.Adam "
    "torch.compiler.is_compiling torch.cuda.is_current_stream_capturing torch.cuda.is_initialized tqdm.tqdm "
    "os.path.basename os.path.splitext torch.Tensor torch.abs torch.as_tensor torch.cat torch.clamp "
    "torch.cuda.is_available torch.device torch.exp torch.max torch.mean torch.min torch.ones torch.stack "
    "torch.tensor torch.zeros torch.zeros_like time.time".split()
)
"""Functions that change and draw nothing, by the names that the fixtures give them. A progress bar is drawn on the
terminal, which nobody compares."""
SETTING = frozenset("random.seed np.random.seed torch.manual_seed nn.init.zeros_ torch.nn.init.constant_".split())
"""Functions whose second call with the same arguments changes nothing any more."""
SETTING_METHODS = frozenset("copy_ fill_ load_state_dict seed zero_grad zero_grad_actor zero_grad_critic".split())
SHAPE_ONLY = frozenset("torch.zeros_like torch.empty_like".split())
"""Functions that read only the shape, dtype and device of their argument."""


def proof(mutant: Mutant, text: str) -> str:
    """Why a mutant of a script in canonical form computes the same; empty where that is not proved."""
    return _of_statement(mutant, text) or next((why for rule in _RULES if (why := rule(mutant, _Script(text)))), "")


def _of_statement(mutant: Mutant, text: str) -> str:
    """The proof from the statement alone, and from the fact that nothing reads what it binds."""
    repeated, after = mutant.kind == "repeat", _statement(mutant.after)
    match _statement(mutant.before):
        case ast.Expr(value=ast.Call(func=function, args=arguments, keywords=[])) if repeated:
            name = getattr(function, "attr", getattr(function, "id", ""))
            setting = ast.unparse(function) in SETTING or name in SETTING_METHODS
            if setting and all(map(_is_pure, arguments)):
                return "what it sets is set again"
        case ast.Assign(targets=targets, value=value) if all(map(_is_plain, targets)) and _is_pure(value):
            bound = {name for target in targets for name in _bound(target)}
            if repeated and (not _reads(value, bound) or _is_conversion(value, targets)):
                return "it has no other effect, and its second turn reads nothing that the first has changed"
            if not _reads(ast.parse(text), bound):
                if mutant.kind == "drop" or (isinstance(after, ast.Assign) and _binds(after, targets)):
                    return "nothing reads what it binds"
    return ""


def _statement(text: str) -> ast.stmt | None:
    try:
        (statement,) = ast.parse(text).body
    except SyntaxError:  # the first line of one with a block
        return None
    return statement


def _is_plain(target: ast.expr) -> bool:
    """Whether it is a name, an attribute of one, an entry under a text key, or a tuple of these."""
    match target:
        case ast.Name() | ast.Attribute(value=ast.Name()):
            return True
        case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str())):
            return True
        case ast.Subscript(value=inner, slice=ast.Constant()):  # `optimizer.param_groups[0]["lr"]`
            return _is_plain(inner)
        case ast.Tuple(elts=parts):
            return all(map(_is_plain, parts))
    return False


def _bound(target: ast.expr) -> set[str]:
    """Names; attributes with that of their object; entries as their container."""
    match target:
        case ast.Tuple(elts=parts):
            return {name for part in parts for name in _bound(part)}
        case ast.Subscript(value=value):
            return _bound(value)
    return {ast.unparse(target)}


def _is_conversion(value: ast.expr, targets: list[ast.expr]) -> bool:
    """Whether the result's dtype, device or shape is the same, whatever its target had before."""
    match targets, value:
        case [ast.Tuple(elts=parts)], ast.Tuple(elts=values) if len(parts) == len(values):
            others = [_reads(v, _bound(p)) for p in parts for q, v in zip(parts, values, strict=True) if p is not q]
            return not any(others) and all(_is_conversion(v, [p]) for p, v in zip(parts, values, strict=True))
    while isinstance(value, ast.Call):
        match value:
            case ast.Call(func=ast.Attribute(attr="as_tensor" | "array"), args=[inner], keywords=[]):
                value = inner
            case ast.Call(func=ast.Attribute(value=ast.Name("torch"), attr="tensor"), args=[inner]):
                value = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="to" | "flatten" | "ravel")):
                value = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="view"), args=[size]) if ast.unparse(size) == "-1":
                value = inner
            case _:
                return False
    return isinstance(value, (ast.Name, ast.Subscript)) and [*map(ast.unparse, targets)] == [ast.unparse(value)]


def _binds(statement: ast.Assign, targets: list[ast.expr]) -> bool:
    """Whether an assignment without another effect has these targets."""
    return [*map(ast.dump, statement.targets)] == [*map(ast.dump, targets)] and _is_pure(statement.value)


def _reads(node: ast.AST, bound: set[str]) -> bool:
    """Whether any of these bindings is read. An object used as a whole is read with all its attributes."""
    shapes = [c for c in ast.walk(node) if isinstance(c, ast.Call) and ast.unparse(c.func) in SHAPE_ONLY]
    aside = {id(n) for call in shapes for argument in call.args for n in ast.walk(argument)}
    loaded = [n for n in ast.walk(node) if isinstance(getattr(n, "ctx", None), ast.Load) and id(n) not in aside]
    attributes = [n for n in loaded if isinstance(n, ast.Attribute)]
    names = [n for n in loaded if isinstance(n, ast.Name)]
    objects = {id(a.value) for a in attributes}
    whole = {n.id for n in names if id(n) not in objects}
    read = {n.id for n in names} | {ast.unparse(a) for a in attributes}
    return any(b in read or b.partition(".")[0] in whole for b in bound)


def _is_pure(value: ast.expr) -> bool:
    """Whether computing it has no effect but for raising."""
    may = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    later = {id(n) for f in ast.walk(value) if isinstance(f, ast.Lambda) for n in ast.walk(f.body)}
    return all(_is_known(n) for n in ast.walk(value) if isinstance(n, may) and id(n) not in later)


def _is_known(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) as function):
            return name in PURE_METHODS or ast.unparse(function) in PURE_FUNCTIONS
        case ast.Call(func=ast.Name(id=name)):
            return name in PURE_FUNCTIONS
    return False


class _Script:
    """The script that is edited."""

    def __init__(self, text: str) -> None:
        self.text, self.tree = text, ast.parse(text)
        self._parents = {id(c): parent for parent in ast.walk(self.tree) for c in ast.iter_child_nodes(parent)}

    def statement(self, line: int) -> ast.stmt:
        """The outermost one that begins in a line: in canonical form there is one with a block at the most."""
        return next(n for n in ast.walk(self.tree) if isinstance(n, ast.stmt) and n.lineno == line)

    def parent(self, node: ast.AST) -> ast.AST:
        return self._parents[id(node)]

    def scope(self, node: ast.AST) -> ast.AST:
        """The innermost function or class around a node, or the module."""
        while node is not self.tree:
            node = self.parent(node)
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                break
        return node

    def functions(self, name: str) -> list[ast.FunctionDef]:
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef) and n.name == name]

    def values(self, name: str, within: ast.AST | None = None) -> list[str]:
        """The values assigned to a variable by its name, anywhere or within a function."""
        assigned = [n for n in ast.walk(within or self.tree) if isinstance(n, ast.Assign)]
        return [ast.unparse(n.value) for n in assigned if any(ast.unparse(t) == name for t in n.targets)]


def _one_spelling(mutant: Mutant, script: _Script) -> str:
    """Both texts, with one spelling for each thing, are the same."""
    scope = script.scope(script.statement(mutant.line))
    before, after = (_spelled(t, script, scope) for t in (mutant.before, mutant.after))
    return "the same in another spelling" if before is not None and before == after else ""


def _spelled(text: str, script: _Script, scope: ast.AST) -> str | None:
    statement = _statement(text)
    return None if statement is None else ast.dump(_Spelling(script, scope).visit(statement))


class _Spelling(ast.NodeTransformer):
    """Rewrites code to one spelling for each operation."""

    def __init__(self, script: _Script, scope: ast.AST) -> None:
        self._script, self._scope = script, scope

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="param_groups")):
                made = [v for v in self._script.values(name) if not v.startswith(f"{name}.")]
                alone = made and all(v.startswith("optim.Adam(agent.parameters(), ") for v in made)
                if alone and "add_param_group" not in self._script.text and ast.unparse(node.slice) == "-1":
                    node.slice = ast.Constant(0)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name("np"), attr="var"), args=[inner]):
                while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and not inner.args:
                    inner = inner.func.value if inner.func.attr in ("cpu", "numpy") else ast.Constant(None)
                if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):  # -x has the bits of x but one
                    inner.left, inner.right = sorted((inner.left, inner.right), key=ast.unparse)
            case ast.Call(
                func=ast.Attribute(value=ast.BinOp(left=ast.Name(id=name), op=ast.Div(), right=drawn), attr="argmax"),
                args=[axis],
            ):
                made = self._script.values(name, self._scope)
                if len(made) == 1 and re.search(r"\.reshape\(-1, [\w.]+\.shape\[-?1\]\)$", made[0]):  # two axes
                    node.args = [ast.Constant(1) if ast.unparse(axis) == "-1" else axis]
                match drawn:  # halving all draws doubles all quotients
                    case ast.Call(func=ast.Attribute(attr="exponential_"), args=[ast.Constant(value=2)]):
                        drawn.args = [ast.Constant(1)]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Normal's parameters given each other's shape or device: it broadcasts them on one device."""
        self.generic_visit(node)
        made = "(distribution.loc.detach(), distribution.scale.detach())"
        if ast.unparse(node) in ("scale.shape", "scale.device") and self._script.values("(loc, scale)") == [made]:
            node.value = ast.Name("loc", ast.Load())
        return node


def _again(mutant: Mutant, script: _Script) -> str:
    """A repeated call of a function of the script, or of a network's first words, changes nothing more."""
    if mutant.kind != "repeat":
        return ""
    match script.statement(mutant.line):
        case ast.Expr(value=value) as statement if ast.unparse(value) == "super().__init__()":
            owner = script.scope(script.scope(statement))
            if isinstance(owner, ast.ClassDef) and [*map(ast.unparse, owner.bases)] == ["nn.Module"]:
                return "nn.Module's begins with empty tables, and does so again"
        case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=arguments, keywords=[])) as statement:
            if len(found := script.functions(name)) == 1 and all(isinstance(a, ast.Name) for a in arguments):
                given = dict(zip((a.arg for a in found[0].args.args), map(ast.unparse, arguments), strict=False))
                return "it overwrites the same rows" if _overwrites(found[0], given, script) else ""
        case ast.Assign(targets=targets, value=ast.Call() as call) if all(map(_is_plain, targets)):
            bound = {name for target in targets for name in _bound(target)}
            arguments = [*call.args, *(k.value for k in call.keywords)]
            if _reads(call, bound) or not all(map(_is_pure, arguments)):
                return ""
            if _evaluates(call, script):
                return "evaluating the network has no other effect"
            if isinstance(call.func, ast.Name) and len(found := script.functions(call.func.id)) == 1:
                return "it sets again what it has set" if _settles(found[0].body) else ""
    return ""


def _overwrites(function: ast.FunctionDef, given: dict[str, str], script: _Script) -> bool:
    """Whether a function only writes rows of its caller's fresh memory, and does not read them.

    `given` are the variables that it is given, by parameter.
    """
    written: set[str] = set()
    for statement in function.body:
        match statement:
            case ast.For(target=ast.Name(), iter=over, body=body, orelse=[]) if _is_pure(over):
                for inner in body:
                    if not isinstance(inner, ast.Assign) or not _is_pure(inner.value):
                        return False
                    rows = [t for t in inner.targets if isinstance(t, ast.Subscript)]
                    written |= {ast.unparse(r.value) for r in rows}
                    if not all(isinstance(t, ast.Name) for t in inner.targets if t not in rows):
                        return False
            case ast.If() if not _same_either_way(statement, script):
                return False
            case ast.Assign(targets=[ast.Name()], value=value) if _is_pure(value):
                pass
            case _ if not (_is_docstring(statement) or isinstance(statement, ast.If)):
                return False
    loops = [s for s in function.body if isinstance(s, ast.For)]
    fresh = [v for name in written for v in script.values(given.get(name, ""))]
    return (
        len(written) == 1
        and not any(_reads(inner.value, written) for s in loops for inner in s.body if isinstance(inner, ast.Assign))
        and len(fresh) == 1
        and re.fullmatch(r"torch\.zeros_like\([^()]*\)(\.to\(device\))?", fresh[0]) is not None
    )


def _evaluates(call: ast.Call, script: _Script) -> bool:
    """Whether it calls a method that computes, and draws no action because it is given one."""
    name = ast.unparse(call.func)
    made = script.values(name) if isinstance(call.func, ast.Name) else [name]
    method = made[0].rpartition(".")[2] if made else ""
    wrapped = re.compile(rf"CudaGraphModule\({re.escape(name)}, warmup=20\)|{re.escape(made[0])}" if made else "")
    if not all(wrapped.fullmatch(v) for v in made) or len(found := script.functions(method)) != 1:
        return False
    given = len(call.args) > 1 or [k.arg for k in call.keywords] == ["action"]
    if [a.arg for a in found[0].args.args] != ["self", "x", "action"] or not given:
        return False
    return all(_computes(s) for s in found[0].body)


def _computes(statement: ast.stmt) -> bool:
    """Whether a statement of such a method has no effect outside if an action is given."""
    match statement:
        case ast.If(test=test, orelse=[]):
            return ast.unparse(test) == "action is None"
        case ast.Assign(targets=targets, value=value):
            return all(isinstance(n, ast.Name) for t in targets for n in getattr(t, "elts", [t])) and _is_pure(value)
        case ast.Return(value=ast.expr() as value):
            return _is_pure(value)
    return False


def _settles(body: list[ast.stmt]) -> bool:
    """Whether all that statements do is to set variables of their own, and attributes which they do not read."""
    body = [s for s in body if not _is_docstring(s)]
    every = [n for s in body if not isinstance(s, ast.FunctionDef) for n in ast.walk(s)]
    stored = {n.attr for n in every if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    loaded = {n.attr for n in every if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)}
    return not stored & loaded and all(map(_sets, body))


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _sets(statement: ast.stmt) -> bool:
    match statement:
        case ast.FunctionDef():
            return True
        case ast.If(test=test, body=body, orelse=other):
            return _is_pure(test) and all(map(_sets, [*body, *other]))
        case ast.For(target=ast.Name(), iter=over, body=body, orelse=[]):
            return _is_pure(over) and all(map(_sets, body))
        case ast.Assign(targets=[ast.Name() | ast.Attribute()], value=value) | ast.Return(value=ast.expr() as value):
            return _is_pure(value)
    return False


def _either_flag(mutant: Mutant, script: _Script) -> str:
    """Two swapped names, in a function that reads both only as `a or b`."""
    match _statement(mutant.before), _statement(mutant.after):
        case (
            ast.Assign(targets=[ast.Tuple(elts=before)], value=value),
            ast.Assign(targets=[ast.Tuple(elts=after)], value=same),
        ) if ast.dump(value) == ast.dump(same):
            moved = [getattr(a, "id", "") for a, b in zip(before, after, strict=True) if ast.dump(a) != ast.dump(b)]
            scope = script.scope(script.statement(mutant.line))
            read = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id in moved and _is_load(n)]
            if (
                len(moved) == 2
                and isinstance(scope, ast.FunctionDef)
                and all(_is_either(n, moved, script) for n in read)
            ):
                return "both flags are joined, and nothing else reads either"
    return ""


def _is_load(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _is_either(node: ast.Name, names: list[str], script: _Script) -> bool:
    match script.parent(node):
        case ast.BoolOp(op=ast.Or(), values=joined) | ast.Call(func=ast.Attribute(attr="logical_or"), args=joined):
            return sorted(map(ast.unparse, joined)) == sorted(names)
    return False


def _two_ways(mutant: Mutant, script: _Script) -> str:
    """An edit of the condition of an `if` with two equal branches, or of what only that condition reads."""
    statement = script.statement(mutant.line)
    after = mutant.after.removesuffix(":")
    if mutant.kind == "repeat":
        return ""
    match statement:
        case ast.If() if why := _same_either_way(statement, script):
            test = _statement(f"{after}: pass")
            dropped = mutant.kind == "drop" and not statement.orelse
            return why if dropped or (isinstance(test, ast.If) and _is_pure(test.test)) else ""
        case ast.Assign(targets=[ast.Name(id=name)]):
            scope, edited = script.scope(statement), _statement(mutant.after)
            read = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == name and _is_load(n)]
            around = [c for c in ast.walk(scope) if isinstance(c, ast.If) and _same_either_way(c, script)]
            tests = [{id(n) for n in ast.walk(c.test)} for c in around]
            pure = isinstance(edited, ast.Assign) and _is_pure(edited.value)
            if isinstance(scope, ast.FunctionDef) and pure and all(any(id(n) in t for t in tests) for n in read):
                return _same_either_way(around[0], script) if around else ""
        case ast.Assign() if mutant.kind == "drop":
            outer = script.parent(statement)
            if isinstance(outer, ast.If) and outer.body == [statement]:
                return _same_either_way(outer, script, "numpy's views of rows")
    return ""


def _same_either_way(node: ast.If, script: _Script, only: str = "") -> str:
    """Why both branches of an `if` are equal; empty if they may differ."""
    match node:
        case ast.If(
            body=[ast.Assign(targets=[ast.Attribute(attr="grad") as bound], value=ast.Name() as new)],
            orelse=[ast.Expr(value=ast.Call(func=ast.Attribute(value=old, attr="copy_"), args=[copied]))],
        ) if (ast.unparse(bound), ast.unparse(new)) == (ast.unparse(old), ast.unparse(copied)) and not only:
            return "a gradient is the same numbers, bound anew or copied into the old one"
        case ast.If(
            body=[ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.GeneratorExp() as made)], orelse=[]
        ) if re.fullmatch(r"\(r\.numpy\(\) for r in (\w+)\)", ast.unparse(made)):
            rows = ast.unparse(made.generators[0].iter)
            scope = script.scope(node)
            names = [ast.unparse(p) for p in parts]
            if script.values(rows) == [f"({', '.join(names)})"] and _is_arithmetic(names, node, scope, script):
                return "sums and products of rows have the same bits as tensors and as numpy's views, in one memory"
    return ""


def _is_arithmetic(names: list[str], node: ast.If, scope: ast.AST, script: _Script) -> bool:
    """Whether these names are only read and written row by row, in sums and products, after a statement."""
    behind = [n for n in ast.walk(scope) if getattr(n, "lineno", 0) > (node.end_lineno or 0)]
    uses = [n for n in behind if isinstance(n, ast.Name) and n.id in names]
    rows = [script.parent(n) for n in uses]
    others = (ast.Call, ast.Compare, ast.Return, ast.IfExp)
    loops = [n for n in behind if isinstance(n, ast.For)]
    calls = [n for loop in loops for s in loop.body for n in ast.walk(s) if isinstance(n, others)]
    operators = [n.op for n in behind if isinstance(n, ast.BinOp)]
    return (
        all(isinstance(r, ast.Subscript) and isinstance(r.slice, ast.Name) for r in rows)
        and all(isinstance(op, (ast.Add, ast.Mult)) for op in operators)
        and not calls
    )


def _first_gradients(mutant: Mutant, script: _Script) -> str:
    """An edit of initial gradients that each backward pass overwrites."""
    statement = script.statement(mutant.line)
    function = script.scope(statement)
    if not isinstance(function, ast.FunctionDef) or mutant.kind == "repeat":
        return ""
    if isinstance(statement, ast.Assign) and mutant.kind != "drop":
        return ""
    zeros = [statement] if isinstance(statement, ast.Assign) else [*ast.walk(statement)]
    sets = [n for n in zeros if isinstance(n, ast.Assign)]
    hint = "torch._dynamo.config.trace_autograd_ops = True"
    if not sets or any(ast.unparse(n) not in ("p.grad = torch.zeros_like(p)", hint) for n in sets):
        return ""
    if not _sets(statement) or (isinstance(statement, ast.For) and mutant.kind != "drop"):
        return ""
    return "each backward pass sets the gradients anew" if _sets_gradients_anew(function, script) else ""


def _sets_gradients_anew(function: ast.FunctionDef, script: _Script) -> bool:
    """Whether only this function of the script handles gradients, and each backward pass sets them all anew."""
    anew = [n for n in ast.walk(function) if isinstance(n, ast.If) and "gradient" in _same_either_way(n, script)]
    blocks = [b for n in ast.walk(script.tree) if isinstance(b := getattr(n, "body", None), list)]
    calls = [b[:i] for b in blocks for i, s in enumerate(b) if ast.unparse(s).startswith("backward(")]
    reads = [n for n in ast.walk(script.tree) if isinstance(n, ast.Attribute) and n.attr == "grad"]
    inside = {id(n) for n in ast.walk(function)}
    zeroed = bool(calls) and all("zero_grad()" in map(ast.unparse, before) for before in calls)
    return len(anew) == 1 and zeroed and all(id(n) in inside for n in reads)


def _either_backward(mutant: Mutant, script: _Script) -> str:
    """Dropping what puts autograd.grad in the place of `loss.backward()`: the same gradients of the same parameters.

    These are all that the network has, and each pass clears or overwrites what it had, so that nothing is added up.
    """
    statement = script.statement(mutant.line)
    names = "zero_grad, backward, optimizer_step"
    if mutant.kind != "drop" or ast.unparse(statement) != f"{names} = traceable(optimizer)":
        return ""
    emitted = ast.parse(render("traceable", traceable="traceable", only=True, scheduled=False)).body
    eager = "(optimizer.zero_grad, lambda loss: loss.backward(), optimizer.step)"
    own = [ast.dump(function) for function in script.functions("traceable")]
    if own == [*map(ast.dump, emitted)] and eager in script.values(f"({names})") and _is_adam_of_all(script):
        return "gradients are the same numbers by backward() and by autograd.grad(), each pass of which sets all anew"
    return ""


def _same_row(mutant: Mutant, script: _Script) -> str:
    """Repeating `rows[i] = x`, where x is always newly computed and i counts."""
    statement = script.statement(mutant.line)
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(rows), slice=ast.Name(i))], value=ast.Name(x)):
            around = script.scope(statement)
            made = [n for n in ast.walk(around) if isinstance(n, ast.Name) and n.id in (i, x) and _is_stored(n)]
            counts = [n for n in map(script.parent, made) if isinstance(n, ast.For) and _counts(n.iter)]
            new = [n for n in map(script.parent, made) if isinstance(n, ast.Assign) and _is_new(n.value)]
            if mutant.kind == "repeat" and len({rows, i, x}) == 3 and len(counts) == 1 and new:
                return "it writes the same numbers into the same row" if len(made) == len(new) + 1 else ""
    return ""


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_new(value: ast.expr) -> bool:
    return isinstance(value, (ast.BinOp, ast.Constant))


def _counts(over: ast.expr) -> bool:
    return re.fullmatch(r"(reversed\()?range\(.*\)+", ast.unparse(over)) is not None


def _is_adam_of_all(script: _Script) -> bool:
    """Whether the script's one optimizer is Adam with all of the network's parameters."""
    made = script.values("optimizer")
    alone = len(made) == 1 and made[0].startswith("optim.Adam(agent.parameters(), ")
    return alone and "add_param_group" not in script.text and script.text.count("optim.Adam") == 1


def _other_kind(mutant: Mutant, script: _Script) -> str:
    """Dropping the code for a kind of distribution that the script never samples."""
    kinds = re.fullmatch(r"if \w+ and isinstance\((\w+), torch\.distributions\.(\w+)\):", mutant.before)
    if mutant.kind != "drop" or kinds is None:
        return ""
    drawn = _drawn(script.scope(script.statement(mutant.line)), script)
    others = {"Categorical", "Normal", "Independent"} - {kinds[2]}
    return "the script samples distributions of another kind" if drawn and drawn <= others else ""


def _drawn(around: ast.AST, script: _Script) -> set[str]:
    """The kinds of distributions that a function of the script is given by others; `unknown` among them."""
    name = getattr(around, "name", "")
    calls = [n for n in ast.walk(script.tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == name]
    outside = [c for c in calls if script.scope(c) is not around]
    values = [v for c in outside for a in c.args for v in script.values(ast.unparse(a), script.scope(c)) or ["unknown"]]
    return {v.partition("(")[0] for v in values}


def _drawn_outside_graphs(mutant: Mutant, script: _Script) -> str:
    """An edit of `captured and isinstance(...)` that gives the same value, or draws outside of graphs as inside."""
    statement = script.statement(mutant.line)
    condition = r"if captured (and|or) (isinstance\(\w+, torch\.distributions\.(\w+)\)):"
    before, after = re.fullmatch(condition, mutant.before), re.fullmatch(r"if captured (and|or) (.*):", mutant.after)
    around = script.scope(statement)
    if before is None or after is None or not isinstance(around, ast.FunctionDef) or before[1] != "and":
        return ""
    drawn, earlier = _drawn(around, script), set()
    for sibling in around.body[: around.body.index(statement)]:
        match sibling, re.match(condition, ast.unparse(sibling)):
            case ast.If(body=[*_, ast.Return()]), found if found and found[1] == "and":
                earlier.add(found[3])
    same = after[2] == before[2]
    if drawn and drawn <= earlier and before[3] not in drawn and (after[1] == "and" or same):
        return "in a graph the function has returned before, and outside of one it is the same"
    if same and after[1] == "or" and drawn in ({"Categorical"}, {"Normal"}) and drawn == {before[3]}:
        return "torch draws from this distribution by the same formula"
    return ""


def _uncaptured(mutant: Mutant, script: _Script) -> str:
    """Whether a function is compiled or captured: both have to compute what the function itself does.

    A graph holds one size of inputs, so that another capture has to be shown to see no other.
    """
    statement = script.statement(mutant.line)
    leaves = [n for n in ast.walk(statement) if isinstance(n, ast.stmt) and not isinstance(n, ast.If)]
    if not all(map(_accelerated, leaves)):
        return ""
    if mutant.kind == "drop":
        return "captured or compiled or not, a function computes the same"
    edited = _statement(f"{mutant.after.removesuffix(':')}: pass")
    if not (isinstance(statement, ast.If) and isinstance(edited, ast.If) and _is_pure(edited.test)):
        return ""
    captures = [n for n in leaves if "CudaGraphModule" in ast.unparse(n)]
    if not captures and not any(isinstance(n, ast.If) for s in statement.body for n in ast.walk(s)):
        return "compiled or not, a function computes the same"
    parts = re.fullmatch(r"(\w+\.\w+) % (\w+\.\w+) == 0", ast.unparse(statement.test))
    if parts and _is_cut(parts[1], parts[2], script) and len(leaves) == 1 and not statement.orelse:
        one = f"{parts[1]} // {parts[2]} == 0", f"{parts[2]} % {parts[1]} == 0", f"{parts[1]} % {parts[2]} == -1"
        if ast.unparse(edited.test) in one:
            return "captured or not, it computes the same; captured it is where the batch is one minibatch, or nowhere"
    return _first_capture(statement, edited, script)


def _accelerated(node: ast.AST) -> str:
    """The function that a statement compiles or captures, and does nothing else; empty where it does something else."""
    found = re.fullmatch(
        r"(\w+) = (CudaGraphModule\(\1(, warmup=\d+)?\)|torch\.compile\(\1, options=\w+\))", ast.unparse(node)
    )
    return found[1] if found else ""


def _is_cut(whole: str, part: str, script: _Script) -> bool:
    """Whether something of size `whole` is cut into parts of size `part`, which is then positive."""
    calls = {ast.unparse(n) for n in ast.walk(script.tree) if isinstance(n, ast.Call)}
    return f"range(0, {whole}, {part})" in calls or any(
        c.endswith(f".split({part})") and f"torch.randperm({whole}, " in c for c in calls
    )


def _first_capture(statement: ast.If, edited: ast.If, script: _Script) -> str:
    """Always the first of two captures; the captured function is called only under the original condition."""
    outer, test = script.parent(statement), ast.unparse(statement.test)
    always = isinstance(outer, ast.If) and statement in outer.body and ast.dump(outer.test) == ast.dump(edited.test)
    names = {_accelerated(s) for s in statement.body}
    inside = {id(n) for n in ast.walk(statement)}
    for node in ast.walk(script.tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == test:
            inside |= {id(n) for s in node.body for n in ast.walk(s)}
    calls = [n for n in ast.walk(script.tree) if isinstance(n, ast.Name) and n.id in names and _is_load(n)]
    if always and re.fullmatch(r"args\.\w+", test) and f"{test} = " not in script.text:
        if all(id(n) in inside for n in calls):
            return "captured or not, it computes the same; what is captured beside is not called"
    return ""


def _either_rate(mutant: Mutant, script: _Script) -> str:
    """An edit of the condition under which Adam's learning rate is in a tensor, where no function is captured.

    It is a float that is set where there is a tensor, or a tensor that is made where a float would do; the contrary
    fails.
    """
    statement, edited = script.statement(mutant.line), _statement(f"{mutant.after.removesuffix(':')}: pass")
    if mutant.kind in ("drop", "repeat") or not (isinstance(statement, ast.If) and isinstance(edited, ast.If)):
        return ""
    if ast.unparse(statement.test) != "args.compile or args.cudagraphs" or not _is_adam_of_all(script):
        return ""
    body, other = (" ".join("; ".join(map(ast.unparse, s)).split()) for s in (statement.body, statement.orelse))
    rate = "optimizer.param_groups[0]['lr']"
    filled = re.fullmatch(rf"{re.escape(rate)}\.fill_\((.*)\)", body)
    makes = "for group in optimizer.param_groups: group['lr'] = torch.tensor(group['lr'], dtype=torch.float64, device="
    if filled is not None and other == f"{rate} = {filled[1]}":
        allowed = False  # the float
    elif (
        body.startswith(makes) and isinstance(loop := statement.body[0], ast.For) and len(loop.body) == 1 and not other
    ):
        allowed = True  # the tensor
    else:
        return ""
    words = {
        w for s in (statement, edited) for n in ast.walk(s.test) if re.fullmatch(r"args\.\w+", w := ast.unparse(n))
    }
    for values in itertools.product((False, True), repeat=len(words)):
        known = dict(zip(sorted(words), values, strict=True))
        was, is_ = (_truth(s.test, known) for s in (statement, edited))
        if is_ is None or (was != is_ and (known["args.cudagraphs"] or is_ is not allowed)):
            return ""
    return "Adam computes the same with a rate in a tensor of float64 and with a float, and no graph holds on to it"


def _truth(test: ast.expr, known: dict[str, bool]) -> bool | None:
    """The value of a condition; None if it has more than options, `and`, `or` and `not`."""
    match test:
        case ast.BoolOp(op=op, values=values):
            truths = [_truth(v, known) for v in values]
            return None if None in truths else (any if isinstance(op, ast.Or) else all)(truths)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            truth = _truth(operand, known)
            return None if truth is None else not truth
    return known.get(ast.unparse(test))


_RULES: tuple[Callable[[Mutant, _Script], str], ...] = (
    _one_spelling,
    _again,
    _either_flag,
    _two_ways,
    _first_gradients,
    _either_backward,
    _same_row,
    _other_kind,
    _drawn_outside_graphs,
    _uncaptured,
    _either_rate,
)
