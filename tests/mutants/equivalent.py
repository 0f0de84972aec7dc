"""Proofs from the text alone that a mutant computes what the script does; the others are explained by hand.

Two kinds of edits are proved to change nothing: the repetition of a statement whose second turn does what the first has
done (an assignment that has no other effect and reads nothing that it binds; a call that sets something to its
arguments), and edits of the value of an assignment to names that nothing reads.

`score.py --proofs` runs what is proved all the same: one that is killed in spite of its proof shows a mistake here.
"""

from __future__ import annotations

import ast

from generate import Mutant

PURE_METHODS = frozenset(
    "abs actor actor_mean argmax bool chunk clamp clone copy cpu critic cuda detach dim exp expand_as flatten float "
    "get_value get_wrapper_attr int item items join keys log log_prob entropy long max mean min numpy prod ravel "
    "reshape sigmoid split sqrt squeeze std sum tanh to tolist type unsqueeze values var view".split()
)
"""Methods of tensors, arrays, dictionaries, texts, distributions and networks that change and draw nothing."""
PURE_FUNCTIONS = frozenset(
    "Categorical Normal TensorDict all any gae get_value dict enumerate float int isinstance len list max min range "
    "reversed sorted str sum tuple type vars zip np.array np.logical_or np.mean np.prod np.stack np.var np.zeros "
    "os.path.basename os.path.splitext torch.Tensor torch.abs torch.as_tensor torch.cat torch.clamp "
    "torch.cuda.is_available torch.device torch.exp torch.max torch.mean torch.min torch.ones torch.stack "
    "torch.tensor torch.zeros torch.zeros_like time.time".split()
)
"""Functions that change and draw nothing, by the names that the fixtures give them."""
SETTING = frozenset("random.seed np.random.seed torch.manual_seed nn.init.zeros_ torch.nn.init.constant_".split())
"""Functions whose second call with the same arguments changes nothing any more."""
SETTING_METHODS = frozenset("close fill_ zero_grad".split())


def proof(mutant: Mutant, text: str) -> str:
    """Why a mutant of a script in canonical form computes the same; empty where that is not proved."""
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
    """Whether it is a name, an attribute of one, an entry under a text key, or several of these."""
    match target:
        case ast.Name() | ast.Attribute(value=ast.Name()):
            return True
        case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str())):
            return True
        case ast.Tuple(elts=parts):
            return all(map(_is_plain, parts))
    return False


def _bound(target: ast.expr) -> set[str]:
    """Names; attributes with that of their object; entries as their container."""
    match target:
        case ast.Tuple(elts=parts):
            return {name for part in parts for name in _bound(part)}
        case ast.Subscript(value=value):
            return {ast.unparse(value)}
    return {ast.unparse(target)}


def _is_conversion(value: ast.expr, targets: list[ast.expr]) -> bool:
    """Whether it makes one dtype, device or shape of a variable, whatever it had before."""
    while isinstance(value, ast.Call):
        match value:
            case ast.Call(func=ast.Attribute(attr="as_tensor"), args=[inner], keywords=[]):
                value = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="to" | "flatten" | "ravel")):
                value = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="view"), args=[size]) if ast.unparse(size) == "-1":
                value = inner
            case _:
                return False
    return isinstance(value, ast.Name) and [ast.unparse(t) for t in targets] == [value.id]


def _binds(statement: ast.Assign, targets: list[ast.expr]) -> bool:
    """Whether an assignment without another effect has these targets."""
    return [*map(ast.dump, statement.targets)] == [*map(ast.dump, targets)] and _is_pure(statement.value)


def _reads(node: ast.AST, bound: set[str]) -> bool:
    """Whether any of what is bound is read; an object that is used as a whole is read with all its attributes."""
    loaded = [n for n in ast.walk(node) if isinstance(getattr(n, "ctx", None), ast.Load)]
    attributes = [n for n in loaded if isinstance(n, ast.Attribute)]
    names = [n for n in loaded if isinstance(n, ast.Name)]
    objects = {id(a.value) for a in attributes}
    whole = {n.id for n in names if id(n) not in objects}
    read = {n.id for n in names} | {ast.unparse(a) for a in attributes}
    return any(b in read or b.partition(".")[0] in whole for b in bound)


def _is_pure(value: ast.expr) -> bool:
    """Whether computing it has no effect but for raising."""
    may = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    return all(_is_known(n) for n in ast.walk(value) if isinstance(n, may))


def _is_known(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) as function):
            return name in PURE_METHODS or ast.unparse(function) in PURE_FUNCTIONS
        case ast.Call(func=ast.Name(id=name)):
            return name in PURE_FUNCTIONS
    return False
