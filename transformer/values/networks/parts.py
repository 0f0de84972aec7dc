"""Shows, from a network's class, that the network is made only of known modules, parameters and plain numbers.

Such a network always computes the same from the same parameters and inputs. It has no mode, stored callable, generator
or container of its own; its methods change nothing and read nothing that may change. Anything not known to be harmless
is an obstacle, even if it does no harm.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial

from transformer.dataflow.access import access
from transformer.facts.libraries import OF_MODULE, library_does, module_methods, role
from transformer.facts.lookups import lookups
from transformer.facts.python import ACCESS, HARMLESS, builtin_names, method_names
from transformer.facts.torch_api import NO_GRAD, attributes, holders, names, of_layers
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_itself, calls_method, is_read, parameters, root, statements, walk
from transformer.syntax.tree import Scope
from transformer.values.networks.attributes import (
    MODULE,
    NONE,
    NUMBER,
    UNKNOWN,
    BoundScope,
    Leaves,
    Unknown,
    Values,
    initializes_all,
    kept_by,
    own_nodes,
    stores,
)

READ = (
    of_layers()
    | attributes(memory="number", tells=False)
    | attributes(graph=True, settable=False)
    | module_methods(finds="parameters")
    | names("tensor", memory="number")
    | names("tensor", memory=("new", "shared"), waits="", draws=False) - OF_MODULE
)
"""Attributes and methods that only read modules and parameters."""
STATEFUL = (
    *(
        f"torch.{name}"
        for name in "set_ use_ get_ is_grad is_inference enable no_grad inference_mode manual_seed seed initial_seed "
        "random. Generator load save compile compiler. jit. fx. func. hub. overrides. utils. cuda. backends. "
        "distributed. multiprocessing. optim. autograd. _ nn.Module nn.utils. nn.modules. nn.Dropout nn.Batch "
        "nn.Instance nn.RReLU nn.functional.dropout nn.functional.alpha nn.functional.feature nn.functional.rrelu "
        "nn.functional.batch_norm nn.functional.instance_norm".split()
    ),
    *(f"numpy.{name}" for name in "random. load save set get errstate".split()),
)
"""Prefixes of functions that keep or read state, draw random numbers, or reach more than their arguments."""
PURE = HARMLESS - builtin_names(varies=True) - lookups(of="builtin")
"""Builtins that print, or return equal results for equal arguments."""
GROWING = method_names("list", keeps=("given", "contents"))
PUTTING_TOGETHER = (
    GROWING
    | module_methods(finds="parameters")
    | names("tensor", memory="number")
    | names("tensor", dtype="cast", moves=True)
    | names("tensor", memory=("new", "shared", "in place"), waits="") - OF_MODULE
)
"""Methods that a constructor may call on lists, arrays, and the values of parameters."""
LATER = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.GeneratorExp, ast.Yield, ast.YieldFrom)
"""Nodes whose code runs, or continues, later."""
THROUGH = builtin_names(makes="iterator", calls="")
"""Builtins used to iterate over modules."""
TELLS = builtin_names(gives="nothing", acts=False)
"""Builtins whose results hold nothing of their arguments."""


def computes(name: str) -> bool:
    """Whether a library function, given by its qualified name, does nothing but compute with its arguments."""
    return library_does(name) == "computes" and not name.startswith(STATEFUL)


@dataclass
class _Class:
    """A class whose methods are checked."""

    node: ast.ClassDef
    methods: frozenset[str]
    kept: dict[str, Leaves] = field(default_factory=dict)
    """Attributes that the constructor sets, and buffers, with their kinds."""


class Parts:
    """Checks the classes and functions of this file that make a network."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree
        self._values = Values(roles, self._check_made_class)
        self._lenient = Values(roles, lambda *_: None)
        self._checked: dict[tuple[ast.AST, Hashable], Unknown | None] = {}
        self._open: set[ast.AST] = set()
        """Calls whose classes and functions are being checked."""
        self.handing_out: set[str] = set()
        """Names of methods that return parts of a network, such as lists of parameters."""

    def obstacle(self, call: ast.Call) -> str | None:
        """Why the object that a call in the training scope makes is not a known network; None if it is."""
        frame = BoundScope(self._roles.scope)
        try:
            self._call_of_constructor(call, frame, "")
            self._check_handing_out()
            known = self._values.leaves(call, frame) == MODULE
        except Unknown as unknown:
            return str(unknown)
        for name in (n for a in (*call.args, *call.keywords) for n in walk(a) if isinstance(n, ast.Name)):
            if self._is_known_module(name, frame):
                return f"line {call.lineno} makes a network of {name.id}, through which its parts may change unseen"
        return None if known else f"line {call.lineno} makes {ast.unparse(call.func)}(), which is not a known network"

    def _is_known_module(self, name: ast.Name, frame: BoundScope) -> bool:
        """Whether a name may be a known module; nothing else can be a part of a known network."""
        try:
            return "module" in self._values.leaves(name, frame)
        except Unknown:
            return False

    def check_structure(self) -> None:
        """Check that no method of the networks' classes replaces parts or passes on `self` or its parts.

        Raises:
            Unknown: one may.
        """
        for cls in self._roles.network_classes:
            if cls.decorator_list or cls.keywords:
                raise Unknown(f"{cls.name} (line {cls.lineno}) has decorators, keywords or bases that may change it")
            methods = [m for m in cls.body if isinstance(m, ast.FunctionDef) and m.args.args]
            made = _Class(cls, frozenset(m.name for m in methods))
            for method in methods:
                for name, value in kept_by(method):
                    made.kept[name] = made.kept.get(name, NONE) | self._kind_kept(value, method)
            for made_by in (m for m in methods if m.name == "__init__" and self._hands_on(m)):
                raise Unknown(f"{cls.name}.__init__ (line {made_by.lineno}) passes {made_by.args.args[0].arg} on")
            late, making = self._apart(cls), self._apart(cls, making=True)
            for method in (m for m in methods if m.name not in late | {"__init__"}):
                own, makes = method.args.args[0].arg, method.name in making
                for stmt in statements(method.body) if not makes else ():
                    for target in stores(stmt):
                        base = root(target)
                        plain = isinstance(target, ast.Attribute) and _is_the_name(target.value, own)
                        if base == own and (not plain or "module" in made.kept.get(getattr(target, "attr", ""), ())):
                            raise Unknown(f"line {target.lineno} sets {ast.unparse(target)}")
                self._check_self(method, own, made, known_only=False, makes=makes)
        self._check_handing_out()

    def _apart(self, cls: ast.ClassDef, *, making: bool = False) -> frozenset[str]:
        """The methods of a class that run only after training, or never; with `making`, also those that only the
        constructor runs.

        Python and torch do not call them on their own, their names occur only in such places, and they leave nothing
        behind that runs later. The constructor passes the object to nothing that may look methods up by computed names;
        other methods are checked for that one by one.
        """
        made = [m for m in cls.body if isinstance(m, ast.FunctionDef) and m.name == "__init__" and m.args.args]
        if [self._tree.qualified(b) for b in cls.bases] != ["torch.nn.Module"] or any(map(self._hands_on, made)):
            return frozenset()
        methods = {m.name: m for m in cls.body if isinstance(m, ast.FunctionDef) and not m.decorator_list}
        apart = {n for n in methods if n not in OF_MODULE | {"forward"} and not n.startswith("_")}
        apart = {n for n in apart if not any(isinstance(part, LATER) for s in methods[n].body for part in walk(s))}
        before: set[str] = set()
        while apart != before:
            before = apart
            within = {methods[name] for name in apart}
            apart = {
                name
                for name in apart
                if all(
                    self._tree.scope_of(n) in within or self._runs_late(n) or (making and self._is_made_by(n, cls))
                    for n in self._written(name)
                )
            }
        return frozenset(apart)

    def _hands_on(self, method: ast.FunctionDef) -> bool:
        """Whether a method uses `self` other than to access an attribute or to call its base class."""
        parents, own = self._tree.parents, method.args.args[0].arg
        for node in walk(method):
            outer = parents[node] if _is_the_name(node, own) else None
            base = isinstance(outer, ast.Call) and (
                self._tree.names.builtin(outer.func) == "super" or self._tree.calls(outer, "torch.nn.Module.__init__")
            )
            if not (outer is None or isinstance(outer, (ast.Attribute, ast.arguments)) or base):
                return True
        return False

    def _written(self, name: str) -> Iterator[ast.expr]:
        """The places where a name occurs: as a name, an attribute or a string."""
        tree = self._tree
        yield from (n for n in tree.of(ast.Name) if n.id == name)
        yield from (n for n in tree.of(ast.Attribute) if n.attr == name)
        yield from (n for n in tree.of(ast.Constant) if n.value == name)

    def _runs_late(self, node: ast.expr) -> bool:
        """Whether an expression is below the training loop, and so runs after the loop."""
        end = self._roles.outermost.end_lineno
        return self._tree.scope_of(node) is self._roles.scope and end is not None and node.lineno > end

    def _is_made_by(self, node: ast.expr, cls: ast.ClassDef) -> bool:
        """Whether an expression is a method that the constructor of its class calls on its own object."""
        scope, call = self._tree.scope_of(node), self._tree.parents[node]
        if scope not in cls.body or not isinstance(scope, ast.FunctionDef) or scope.name != "__init__":
            return False
        own = isinstance(node, ast.Attribute) and self._tree.class_of_self(node.value, scope) is cls
        late = any(isinstance(n, LATER) for n in self._tree.ancestors(node) if n is not scope)
        return own and not late and isinstance(call, ast.Call) and call.func is node

    def _kind_kept(self, value: ast.expr | None, method: ast.FunctionDef) -> Leaves:
        """The kind of an attribute, as far as it is known without the constructor's arguments."""
        try:
            return self._lenient.leaves(value, BoundScope(method))
        except Unknown:
            return UNKNOWN

    def _check_made_class(self, cls: ast.ClassDef, call: ast.Call, caller: BoundScope) -> None:
        """Check the class that a call instantiates, and the arguments.

        Raises:
            Unknown: something is not known to be harmless.
        """
        self._once_of_call(cls, call, caller, lambda: self._check_class(cls, call, caller))

    def _once_of_call(self, what: ast.AST, call: ast.Call, frame: BoundScope, check: Callable[[], None]) -> None:
        """Check what a call runs, once per frame, as the arguments may differ by frame.

        Raises:
            Unknown: something is not known, or the call is recursive.
        """
        if call in self._open and (what, (call, frame.key)) not in self._checked:
            raise Unknown(f"line {call.lineno} is reached by too many nested calls")
        self._open.add(call)
        try:
            self._once(what, (call, frame.key), check)
        finally:
            self._open.discard(call)

    def _once(self, what: ast.AST, where: Hashable, check: Callable[[], None]) -> None:
        """Check something once and repeat the outcome later; asking again during the check is no obstacle."""
        if (what, where) not in self._checked:
            self._checked[what, where] = None
            try:
                check()
            except Unknown as unknown:
                self._checked[what, where] = unknown
        if (found := self._checked[what, where]) is not None:
            raise found

    def _check_class(self, cls: ast.ClassDef, call: ast.Call, caller: BoundScope) -> None:
        if not self._roles.is_module(cls):
            raise Unknown(f"line {call.lineno} makes {cls.name}, which is no network and not followed")
        if [self._tree.qualified(b) for b in cls.bases] != ["torch.nn.Module"] or cls.keywords or cls.decorator_list:
            raise Unknown(f"{cls.name} (line {cls.lineno}) is more than a plain subclass of torch.nn.Module")
        methods = [stmt for stmt in cls.body if isinstance(stmt, ast.FunctionDef)]
        for stmt in cls.body:
            doc = isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)
            if not (doc or isinstance(stmt, (ast.FunctionDef, ast.Pass))):
                raise Unknown(f"{cls.name} has a class attribute (line {stmt.lineno})")
        made, apart = _Class(cls, frozenset(m.name for m in methods)), self._apart(cls)
        for method in methods:
            self._check_signature(method, made, len(methods))
        for method in sorted(methods, key=lambda m: m.name != "__init__"):
            if method.name == "__init__":
                frame = self._values.enter(method, call, caller)
                if frame is None:
                    raise Unknown(f"line {call.lineno} does not say which parameter of {cls.name}() gets which value")
                self._constructor(method, frame, made)
            elif method.name not in apart:
                self._check_method(method, made)

    def _check_signature(self, method: ast.FunctionDef, cls: _Class, count: int) -> None:
        name = f"{cls.node.name}.{method.name} (line {method.lineno})"
        if method.name in OF_MODULE or (method.name.startswith("__") and method.name != "__init__"):
            raise Unknown(f"{name} overrides a method of torch")
        if len(cls.methods) != count:
            raise Unknown(f"{cls.node.name} defines a method twice")
        if any(not self._tree.calls(d, *NO_GRAD) for d in method.decorator_list):
            raise Unknown(f"{name} is decorated")
        defaults = [*method.args.defaults, *(d for d in method.args.kw_defaults if d is not None)]
        if not method.args.args or any(self._values.leaves(d, BoundScope(self._tree.root)) != NUMBER for d in defaults):
            raise Unknown(f"{name} has a default that is not a number, or no self")

    # --- constructors --------------------------------------------------------------------------------------

    def _constructor(self, function: ast.FunctionDef, frame: BoundScope, cls: _Class) -> None:
        own = function.args.args[0].arg
        for attribute, value in kept_by(function):
            leaves = self._values.leaves(value, frame) if value is not None else frozenset()
            if leaves not in (MODULE, NUMBER) and not self._is_unused_environment(attribute, value, frame):
                line = function.lineno if value is None else value.lineno
                raise Unknown(f"line {line} keeps {own}.{attribute}, which is not a known module, parameter or number")
            cls.kept[attribute] = cls.kept.get(attribute, frozenset()) | leaves
        for node in walk(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == f"{own}.register_buffer":
                if node.args and isinstance(node.args[0], ast.Constant):
                    cls.kept[str(node.args[0].value)] = MODULE
        self._put_together(function, frame, own)
        self._check_self(function, own, cls)

    def _is_unused_environment(self, attribute: str, value: ast.expr | None, frame: BoundScope) -> bool:
        """Whether an attribute is a library's environment, not a module, and is never read."""
        step = self._roles.phases.env_step.func
        origin = self._values.origin(value, frame)[0] if value is not None else None
        if (
            not isinstance(step, ast.Attribute)
            or not _is_the_name(origin, root(step))
            or not isinstance(step.value, ast.Name)
        ):
            return False
        made = [v for _, v in self._roles.assignments(step.value.id)]
        calls = [self._tree.qualified(v.func) or "" for v in made if isinstance(v, ast.Call)]
        known = len(calls) == len(made) and all(role(name) == "environments" for name in calls)
        read = any(n.attr == attribute and isinstance(n.ctx, ast.Load) for n in self._tree.of(ast.Attribute))
        return bool(made) and known and not read

    def _put_together(self, function: ast.FunctionDef, frame: BoundScope, own: str) -> None:
        """Check what a constructor does, or a function of this file that the constructor calls."""
        local = {*parameters(function), *(n for s in statements(function.body) for n in access(s).binds)}
        for stmt in statements(function.body):
            if not self._is_only_called(stmt):
                self._check_plain(stmt)
            for target in stores(stmt):
                kept = isinstance(target, ast.Attribute) and _is_the_name(target.value, own)
                value = getattr(target, "attr", "") in ("data", "weight", "bias", "requires_grad")
                if not kept and not (value and root(target) in local):
                    raise Unknown(f"line {target.lineno} sets {ast.unparse(target)}")
            for node in own_nodes(stmt):
                if isinstance(node, ast.Call):
                    self._call_of_constructor(node, frame, own)

    def _is_only_called(self, stmt: ast.stmt) -> bool:
        """Whether a statement defines a function that is only called, so that checking its calls is enough."""
        if not isinstance(stmt, ast.FunctionDef) or stmt.decorator_list:
            return False
        around = walk(self._tree.scope_of(stmt))
        uses = (self._tree.parents[n] for n in around if isinstance(n, ast.Name) and n.id == stmt.name)
        return all(isinstance(call, ast.Call) and self._tree.helper_called(call) is stmt for call in uses)

    def _call_of_constructor(self, call: ast.Call, frame: BoundScope, own: str) -> None:
        name, func = self._tree.qualified(call.func) or "", call.func
        if name.startswith("torch.nn.init.") or self._values.makes_module(call, frame):
            return
        function = self._values.function_called(call, local=True)
        known = computes(name) and not name.startswith("torch.nn.")
        known = known or self._tree.names.builtin(func) in PURE | ACCESS
        if function is not None:
            inner = self._values.enter(function, call, frame)
            known = inner is not None
            if inner is not None:
                check = partial(self._put_together, function, inner, "")
                self._once_of_call(function, call, frame, check)
        elif isinstance(func, ast.Attribute) and not name:
            known = func.attr in PUTTING_TOGETHER and not _is_the_name(func.value, own)
            known = known and (func.attr not in GROWING or _is_new_list(func.value, frame.scope))
            known = known or ast.unparse(func) in (f"{own}.register_buffer", f"{own}.parameters")
            known = known or initializes_all(self._tree, func)
            known = known or (func.attr == "__init__" and ast.unparse(func.value).startswith("super("))
            known = known or self._values.leaves(call, frame) in (MODULE, NUMBER)
            # the network calls one of its parts, to find its output size
            known = known or (_is_the_name(func.value, own) and self._values.leaves(func, frame) == MODULE)
        if not known and not (name in ("torch.no_grad", "torch.inference_mode") and not call.args):
            raise Unknown(f"line {call.lineno} calls {ast.unparse(func)}() while the network is made")

    # --- methods -------------------------------------------------------------------------------------------

    def _check_method(self, function: ast.FunctionDef, cls: _Class | None) -> None:
        """Check what runs when the network is called: a method, or a function of this file that a method calls."""
        kept = (cls.node, *cls.kept.items()) if cls is not None else ()
        self._once(function, kept, lambda: self._check_run(function, cls))

    def _check_run(self, function: ast.FunctionDef, cls: _Class | None) -> None:
        own = function.args.args[0].arg if cls is not None else ""
        local = {*parameters(function), *(n for s in statements(function.body) for n in access(s).binds)}
        for stmt in (s for s in statements(function.body) if not isinstance(s, ast.Raise)):
            self._check_plain(stmt)
            for target in stores(stmt):
                if isinstance(target, ast.Attribute) or root(target) not in local - {own}:
                    raise Unknown(f"line {target.lineno} sets {ast.unparse(target)}")
            for node in own_nodes(stmt):
                if isinstance(node, ast.Call):
                    self._call_of_method(node, own, cls, local)
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
                    self._check_global(node)
        if cls is not None:
            self._check_self(function, own, cls)

    def _call_of_method(self, call: ast.Call, own: str, cls: _Class | None, local: set[str]) -> None:
        name, func = self._tree.qualified(call.func) or "", call.func
        known = False
        if name and root(func) not in local:
            known = computes(name)
            if name.startswith("torch.") and name.endswith("_") and any(own == root(a) for a in call.args):
                known = False  # in place, on something that the network keeps
        elif isinstance(func, ast.Name) and func.id not in local:
            function, made = self._values.function_called(call), self._values.class_called(call)
            if function is not None:
                self._check_method(function, None)
            drawn = made is not None and self._roles.is_distribution(made)
            if made is not None and drawn:
                self._distribution(made)
            known = function is not None or drawn or self._tree.names.builtin(func) in PURE
        elif calls_itself(call, own) and cls is not None:
            known = "forward" in cls.methods  # calls the module itself
        elif isinstance(func, ast.Name):
            known = cls is not None and self._goes_through_modules(func, own, cls)
        elif isinstance(func, ast.Attribute) and _is_the_name(func.value, own) and cls is not None:
            known = func.attr in cls.methods or cls.kept.get(func.attr) == MODULE
        elif isinstance(func, ast.Attribute):
            # of a tensor, a distribution, or a part of the network, which _check_self checks
            known = not (isinstance(func.value, ast.Call) and ast.unparse(func.value.func) == "super")
        elif isinstance(func, ast.Subscript):
            known = root(func) == own
        if not known:
            raise Unknown(f"line {call.lineno} calls {ast.unparse(func)}(), of which nothing is known")

    def _distribution(self, cls: ast.ClassDef) -> None:
        """Check that the methods of a distribution class of this file, used during one call, read nothing that changes.

        Raises:
            Unknown: they may.
        """
        for method in (m for m in cls.body if isinstance(m, ast.FunctionDef)):
            local = {*parameters(method), *(n for s in statements(method.body) for n in access(s).binds)}
            for stmt in statements(method.body):
                self._check_plain(stmt)
                for node in own_nodes(stmt):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
                        self._check_global(node)

    def _goes_through_modules(self, name: ast.Name, own: str, cls: _Class) -> bool:
        """Whether a local name is bound only by a loop over modules of the network."""
        function = next(n for n in self._tree.ancestors(name) if isinstance(n, ast.FunctionDef))
        bound = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == name.id and not is_read(n)]
        loops = [n for n in walk(function) if isinstance(n, (ast.For, ast.comprehension))]
        through = [loop for loop in loops if any(b in walk(loop.target) for b in bound)]
        over = [n for loop in through for n in walk(loop.iter) if isinstance(n, ast.Attribute)]
        modules = [n for n in over if _is_the_name(n.value, own) and cls.kept.get(n.attr) == MODULE]
        return len(bound) == len(through) == len(modules) and name.id not in parameters(function)

    def _check_self(
        self, function: ast.FunctionDef, own: str, cls: _Class, *, known_only: bool = True, makes: bool = False
    ) -> None:
        """Check that `self` is only used to access attributes (known ones or any), and that modules are only called,
        read or made."""
        parents = self._tree.parents
        for node in walk(function):
            if isinstance(node, ast.Attribute) and node.attr == "__init__" and function.name != "__init__":
                raise Unknown(f"line {node.lineno} calls a constructor by its name")
            if not _is_the_name(node, own) or parents[node] is function.args:
                continue
            outer = parents[node]
            if isinstance(outer, ast.Call) and ast.unparse(outer.func) == "super":
                continue
            if calls_itself(outer, own) and outer.func is node and "forward" in cls.methods:
                continue  # self(x) calls the module itself
            at = f"line {getattr(node, 'lineno', function.lineno)}"
            if not isinstance(outer, ast.Attribute):
                raise Unknown(f"{at} passes {own} on")
            initial = function.name == "__init__" and outer.attr in (
                "register_buffer",
                "parameters",
                "named_parameters",
            )
            initial = initial or initializes_all(self._tree, outer)
            if known_only and outer.attr not in cls.methods and outer.attr not in cls.kept and not initial:
                raise Unknown(f"{at} uses {own}.{outer.attr}, of which nothing is known")
            part, around = outer, parents[outer]
            if outer.attr in cls.methods and not (isinstance(around, ast.Call) and around.func is outer):
                raise Unknown(f"{at} gives the method {own}.{outer.attr} another name")
            set_up = function.name == "__init__" or (makes and isinstance(outer.ctx, ast.Store))
            if set_up or "module" not in cls.kept.get(outer.attr, ()):
                continue
            self._check_part(part, function)

    def _check_part(self, part: ast.expr, function: ast.FunctionDef) -> None:
        """Check that a method only calls, reads, computes with or iterates over a module or a parameter.

        Raises:
            Unknown: it does something else.
        """
        parents = self._tree.parents
        inside: ast.AST = part
        outer = parents[inside]
        while (isinstance(outer, ast.Subscript) and outer.value is inside) or isinstance(outer, ast.Starred):
            inside, outer = outer, parents[outer]
        call = parents[outer] if isinstance(outer, ast.keyword) else outer
        if isinstance(call, ast.Call) and call.func is not inside:
            name = self._tree.qualified(call.func) or ast.unparse(call.func)
            if (builtin := self._tree.names.builtin(call.func)) in THROUGH:
                self._check_part(call, function)
                return
            known = builtin in TELLS or (computes(name) and not name.endswith("_"))
        elif isinstance(outer, (ast.For, ast.comprehension)):
            known = outer.iter is inside
            target: ast.AST = outer.target
            if (
                isinstance(inside, ast.Call)
                and _is_the_name(inside.func, "enumerate")
                and isinstance(target, ast.Tuple)
            ):
                target = target.elts[-1]  # the first element is the index
            for name_node in walk(target):
                if isinstance(name_node, ast.Name):
                    self._check_element(name_node.id, function)
        elif isinstance(outer, (ast.List, ast.Return)):
            self.handing_out.add(function.name)
            known = True
        elif isinstance(outer, ast.Attribute):
            if outer.attr.endswith("parameters"):
                self.handing_out.add(function.name)
            known = outer.attr in READ or self._is_saved(outer)
        else:
            known = isinstance(outer, (ast.Call, ast.UnaryOp, ast.Compare))
            known = known or (
                isinstance(outer, ast.BinOp) and self._is_parameter(part, function, within=inside is not part)
            )
        if not known:
            raise Unknown(f"line {part.lineno} uses {ast.unparse(part)} in a way that is not known")

    def _is_parameter(self, part: ast.expr, function: ast.FunctionDef, *, within: bool) -> bool:
        """Whether a part, or the expression `within` it, is a parameter or a buffer; `modules + []` is another
        module."""
        cls = self._tree.parents[function]
        if not isinstance(part, ast.Attribute) or not isinstance(cls, ast.ClassDef):
            return False
        methods = [m for m in cls.body if isinstance(m, ast.FunctionDef)]
        kept = [v for m in methods for name, v in kept_by(m) if name == part.attr]
        made = holders("itself", "parameters") if within else holders("itself")
        registered = [n.args[0] for n in walk(cls) if calls_method(n, "register_buffer") and n.args]
        buffers = {name.value for name in registered if isinstance(name, ast.Constant)}
        known = all(v is not None and self._tree.calls(v, *made) for v in kept)
        return known and (bool(kept) or part.attr in buffers)

    def _is_saved(self, attribute: ast.Attribute) -> bool:
        """Whether an attribute is the one in `torch.save(self.actor.state_dict(), path)`, which copies values."""
        call = self._tree.parents[attribute]
        read = isinstance(call, ast.Call) and call.func is attribute and not call.args and not call.keywords
        return read and attribute.attr == "state_dict" and self._tree.calls(self._tree.parents[call], "torch.save")

    def _check_element(self, name: str, function: ast.FunctionDef) -> None:
        """Check that a method only calls and reads the modules that it iterates over.

        Raises:
            Unknown: it does more.
        """
        parents = self._tree.parents
        for node in walk(function):
            if isinstance(node, ast.Name) and node.id == name and is_read(node):
                outer = parents[node]
                called = isinstance(outer, ast.Call) and outer.func is node
                computes = isinstance(outer, (ast.BinOp, ast.Compare, ast.Subscript))
                if not (called or computes or (isinstance(outer, ast.Attribute) and outer.attr in READ)):
                    raise Unknown(f"line {node.lineno} uses {name}, a part of the network, in a way that is not known")

    def _check_handing_out(self) -> None:
        """Check that no method calls a function that returns parts of the network.

        Raises:
            Unknown: one does.
        """
        for cls, _ in self._checked:
            for node in walk(cls) if isinstance(cls, ast.ClassDef) else ():
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in self.handing_out:
                    raise Unknown(f"line {node.lineno} calls {ast.unparse(node.func)}(), which returns parameters")

    def _check_plain(self, stmt: ast.stmt) -> None:
        """Check that a statement has no definitions, deletions, or names of other scopes."""
        strange = (
            ast.FunctionDef,
            ast.AsyncFunctionDef,
            ast.ClassDef,
            ast.Global,
            ast.Nonlocal,
            ast.Delete,
            ast.Import,
        )
        late = (ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom)
        if isinstance(stmt, (*strange, ast.ImportFrom)) or any(isinstance(n, late) for n in own_nodes(stmt)):
            raise Unknown(f"line {stmt.lineno} does more than call and assign")

    def _check_global(self, name: ast.Name) -> None:
        """Check that a global name that a method reads never changes."""
        roles = self._roles
        tree = roles.tree
        values = self._values
        defined = any(isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == name.id for n in tree.root.body)
        if (name.id in tree.imports or defined) and name.id not in values.bound:
            return
        outer = tree.parents[name]
        read = outer if isinstance(outer, ast.Attribute) else name
        if tree.names.builtin(name) or values.leaves(read, BoundScope(tree.root)) == NUMBER:
            return
        raise Unknown(f"line {name.lineno} reads {name.id}, which may change")


def _is_new_list(node: ast.expr, function: Scope) -> bool:
    """Whether a name is a list that the function makes and that nothing else holds."""
    if not isinstance(node, ast.Name) or not isinstance(function, ast.FunctionDef) or node.id in parameters(function):
        return False
    bound = [s for s in statements(function.body) if node.id in access(s).binds]
    made = [s for s in bound if not isinstance(s, ast.AugAssign)]
    return bool(made) and all(
        isinstance(s, (ast.Assign, ast.AnnAssign))
        and (
            isinstance(s.value, (ast.List, ast.ListComp))
            or (isinstance(s.value, ast.Call) and _is_the_name(s.value.func, "list"))
        )
        for s in made
    )


def _is_the_name(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
