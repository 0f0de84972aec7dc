"""What a script does with a network: shows that training changes nothing in it but the values of parameters.

Each use of the network's name, of its optimizers, and of what they return must be known. So must everything else that
could reach the network: names looked up by string, attributes set on classes and modules, hooks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

from transformer.dataflow.grad_mode import without_gradients
from transformer.dataflow.name_lookups import names_in_locals, sees_no_value
from transformer.facts.libraries import LEAVES_PARTS, LOGS_VALUES, OF_MODULE, library_does, module_methods, role
from transformer.facts.lookups import EVERYTHING, SETS, lookups
from transformer.facts.python import builtin_names
from transformer.facts.torch_api import NO_GRAD, SCALERS, attributes, names, of_optimizers, of_parameters
from transformer.recognition.before_training import runs_before_training
from transformer.recognition.roles import Roles
from transformer.syntax.query import (
    bind_arguments,
    calls_method,
    first_parameter,
    is_none,
    names_in,
    pairwise,
    root,
    statements,
    unparse,
    walk,
    without_methods,
)
from transformer.syntax.tree import Scope
from transformer.values.effects.world import World
from transformer.values.networks.attributes import Unknown
from transformer.values.networks.parts import READ, TELLS, Parts, computes

MOVING = module_methods(sets="place")
CALLED = LEAVES_PARTS | MOVING
"""Methods that change at most the values of a network's parameters, if no part has a mode. Moving the network to a
device is allowed only above the training loop."""
PARAMETERS = module_methods(finds=("parameters", "buffers"))
GATHERED = builtin_names(takes=True, maps=False)
"""Builtins that iterate over parameters or make a list of them."""
VALUES = names("tensor") - module_methods(sets="learning") | attributes(memory=("number", "shared"))
"""Attributes and methods that read parameters, or write values into their memory."""
RUN = CALLED | READ | VALUES - OF_MODULE
"""What may be called of networks and their parts."""
COPYING = of_parameters(copies=True)
SNAPSHOTS = lookups(of="builtin", finds="variables", where="caller")
"""Builtins that return the variables of the function that calls them."""
MAY_CHANGE_ANYTHING = EVERYTHING | SETS | lookups(of="library", finds="state")
"""Builtins and modules that reach names and attributes by string, or reach all objects."""
OF_SYS = frozenset("argv exit path stdout stderr version_info platform".split())
"""Attributes of sys through which no module can be reached."""
DEEP = 6
"""The maximum depth of calls."""


def _takes_parameters(name: str) -> bool:
    """Whether a function of torch may be given parameters or optimizers."""
    return name.startswith(("torch.optim.", *SCALERS)) or name in of_parameters(of="gradients")


class Changed(Exception):
    """A use that may change a network; the message is a clause with a line number."""


class NetworkUses:
    """Checks all uses of a script's networks and optimizers.

    Args:
        roles: the script, before the first transform that changes the training loop.
        structure: check only what code that lists the parameters above the training loop relies on: the parameters
            stay, and so does which of them need gradients. What the networks compute may then be unknown.
    """

    def __init__(self, roles: Roles, *, structure: bool = False) -> None:
        self._roles, self._tree = roles, roles.tree
        self._structure = structure
        self._parts = Parts(roles)
        self._seen: set[tuple[str, Scope, str]] = set()

    def obstacles(self, networks: Iterable[str]) -> dict[str, str]:
        """The networks in which more than the values of parameters may change, each with the reason."""
        found = {name: self.obstacle(name) for name in networks}
        return {name: why for name, why in found.items() if why}

    def obstacle(self, network: str) -> str | None:
        """Why training may change more of a network than the values of its parameters; None if it does not."""
        roles = self._roles
        bound = [v for s, v in roles.assignments(network) if self._runs_with_training(s)]
        made = [without_methods(v, MOVING) for v in bound if not is_none(v)]  # it may be made under a condition
        calls = [value for value in made if isinstance(value, ast.Call)]
        moved = [value for value in made if isinstance(value, ast.Name) and value.id == network]
        one = len(calls) == 1 or (
            self._structure and all(self._tree.never_both(c, o) for i, c in enumerate(calls) for o in calls[:i])
        )
        if not (calls and one) or len(calls) + len(moved) != len(made) or network in roles.variant:
            method = roles.scope if isinstance(self._tree.parents.get(roles.scope), ast.ClassDef) else None
            if isinstance(method, ast.FunctionDef) and network == first_parameter(method):
                return f"{network} is the object that trains, and what its attributes hold is not followed"
            return f"{network} is not made by exactly one call above the training loop"
        why = None if self._structure else self._parts.obstacle(calls[0])
        if why is not None:
            return why
        self._seen.clear()  # uses checked for another network may also be uses of this one
        try:
            if self._structure:
                for call in calls:
                    self._check_given(call)
                self._parts.check_structure()
            self._check_script()
            self._network(network, roles.scope, 0)
            for optimizer in roles.optimizers:
                if not optimizer.name.isidentifier():
                    raise Changed(f"line {optimizer.stmt.lineno} keeps the optimizer in {optimizer.name}")
                self._optimizer(optimizer.name, roles.scope, 0)
        except (Changed, Unknown) as found:
            return str(found)
        return None

    # --- what may reach every network ------------------------------------------------------------------------

    def _check_given(self, constructor: ast.Call) -> None:
        """Check that a network is not made from a module that the script can reach by another name.

        Raises:
            Changed: it is, or an argument is not explicit.
        """
        for value in (*constructor.args, *(k.value for k in constructor.keywords)):
            root = value.value if isinstance(value, (ast.Attribute, ast.Subscript)) else value
            made = [v for _, v in self._roles.assignments(root.id)] if isinstance(root, ast.Name) else []
            calls = [n for v in made for n in walk(v) if isinstance(n, ast.Call)]
            held = any((self._tree.qualified(c.func) or "").startswith("torch.nn.") for c in calls)
            if isinstance(value, ast.Starred) or held:
                raise Changed(
                    f"line {constructor.lineno} makes a network of {ast.unparse(value)}, which has other names"
                )

    def _check_script(self) -> None:
        roles = self._roles
        tree = roles.tree
        classes_of_networks = {cls.name for cls in roles.network_classes}
        for node in tree.nodes:
            if isinstance(node, ast.Name) and node.id in classes_of_networks:
                if not self._leaves_class(node) and self._runs_with_training(node):
                    raise Changed(f"line {node.lineno} uses {node.id}, whose methods may be replaced")
            if isinstance(node, ast.Name) and node.id in MAY_CHANGE_ANYTHING:
                if not self._looks_at_another(node) and self._runs_with_training(node):
                    raise Changed(f"line {node.lineno} uses {node.id}, which may change anything")
            elif self._structure:
                continue
            elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                name = tree.qualified(node) or ""
                classes = isinstance(node.value, ast.Name) and node.value.id in tree.classes
                apart = role(name) in ("plain", "reports", "environments") or library_does(name) == "settings"
                if (name and not apart) or classes:
                    raise Changed(f"line {node.lineno} sets {ast.unparse(node)}")
            elif isinstance(node, ast.Constant) and node.value == "__main__":
                if not isinstance(tree.parents[node], ast.Compare):
                    raise Changed(f"line {node.lineno} names the script itself")
            elif isinstance(node, ast.Call):
                name = (tree.qualified(node.func) or ast.unparse(node.func)).rpartition(".")[2]
                if name.startswith("register_") and "hook" in name:
                    raise Changed(f"line {node.lineno} registers a hook")
        for node in () if self._structure else roles.run_by_training:
            name = tree.qualified(node) or ""
            stored = isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
            if name.startswith(("torch.set_", "torch.use_deterministic")) or (stored and name):
                raise Changed(f"line {getattr(node, 'lineno', 1)} changes how torch computes")

    def _leaves_class(self, name: ast.Name) -> bool:
        """Whether a class is only called, subclassed, read for an attribute, type-tested, or named in an annotation."""
        parents = self._tree.parents
        outer = parents[name]
        if isinstance(outer, ast.Call) and self._tree.names.builtin(outer.func) in (
            "isinstance",
            "super",
            "issubclass",
        ):
            return True
        if isinstance(outer, (ast.Call, ast.Attribute)):
            made, read = getattr(outer, "func", None) is name, isinstance(getattr(outer, "ctx", None), ast.Load)
            return made or read
        if isinstance(outer, ast.ClassDef):
            return name in outer.bases
        inside: ast.AST = name
        while isinstance(parents[inside], (ast.Subscript, ast.BinOp, ast.Tuple)):
            inside = parents[inside]
        outer = parents[inside]
        return inside in (getattr(outer, "annotation", None), getattr(outer, "returns", None))

    def _looks_at_another(self, node: ast.Name) -> bool:
        """Whether a lookup cannot see a network: `vars(args)`, `sys.argv` or `"x" in locals()`.

        If a network is passed to one of these, that is found among the network's own uses.
        """
        outer = self._tree.parents[node]
        if sees_no_value(self._tree, node):
            return True
        if isinstance(outer, ast.Call) and outer.func is node and node.id in SNAPSHOTS and not outer.args:
            return self._is_above_networks(outer)
        if isinstance(outer, ast.Attribute):
            return node.id == "sys" and outer.attr in OF_SYS
        first = outer.args[0] if isinstance(outer, ast.Call) and outer.func is node and outer.args else None
        named = first.id if isinstance(first, ast.Name) else ""
        known = {*self._tree.imports, *self._tree.classes}
        return named != "" and named not in known and node.id in ("vars", "setattr", "delattr")

    def _is_above_networks(self, snapshot: ast.Call) -> bool:
        """Whether `locals()` is called before any network or optimizer exists."""
        roles, scope = self._roles, self._tree.scope_of(snapshot)
        names = names_in_locals(self._tree, roles.reaching(scope), snapshot)
        trained = {name.partition(".")[0] for name in (*roles.networks, *(o.name for o in roles.optimizers))}
        return names is not None and scope is roles.scope and names.isdisjoint(trained)

    def _runs_with_training(self, node: ast.AST) -> bool:
        """Whether a node may run before the training loop has ended."""
        loop = self._roles.outermost
        assert loop.end_lineno is not None
        return self._tree.scope_of(node) is not self._roles.scope or getattr(node, "lineno", 0) <= loop.end_lineno

    # --- uses of names -----------------------------------------------------------------------------------------

    def _loads(self, name: str, scope: Scope) -> list[ast.Name]:
        """The reads of a scope's variable that may run before the training loop has ended.

        Raises:
            Changed: the name is bound again.
        """
        found = [n for n in self._tree.of(ast.Name) if n.id == name and self._roles.is_ours(n, scope)]
        for node in (n for n in found if not isinstance(n.ctx, ast.Load) and self._runs_with_training(n)):
            outer = self._tree.statement(node)  # `actor, critic = make(), make()` binds each to one value
            plain = isinstance(outer, ast.Assign) and node in [target for target, _ in pairwise(outer)]
            plain = plain and self._tree.scope_of(node) is scope
            if not plain or self._roles.outermost in self._tree.ancestors(node):
                raise Changed(f"line {node.lineno} binds {name}")
        return [n for n in found if isinstance(n.ctx, ast.Load) and self._runs_with_training(n)]

    def _once(self, name: str, scope: Scope, kind: str) -> bool:
        if (name, scope, kind) in self._seen:
            return False
        self._seen.add((name, scope, kind))
        return True

    def _network(self, name: str, scope: Scope, depth: int) -> None:
        """Check the uses of a network's name, in the training scope or as a parameter.

        Raises:
            Changed: one of them is not known.
        """
        for node in self._loads(name, scope) if self._once(name, scope, "network") else ():
            self._use_of_network(node, depth)

    def _use_of_network(self, node: ast.Name, depth: int) -> None:
        parents = self._tree.parents
        top: ast.AST = node
        path: list[str] = []
        while isinstance(parents[top], (ast.Attribute, ast.Subscript)) and parents[top].value is top:  # type: ignore[attr-defined]
            top = parents[top]
            path.append(top.attr if isinstance(top, ast.Attribute) else "[]")
        outer, text = parents[top], f"line {node.lineno} uses {ast.unparse(top)}"
        if self._structure and path[-1:] == ["data"]:
            return  # a parameter with new memory is the same parameter
        if isinstance(top, (ast.Attribute, ast.Subscript)) and not isinstance(top.ctx, ast.Load):
            raise Changed(f"line {node.lineno} sets {ast.unparse(top)}")
        if isinstance(outer, ast.Call) and outer.func is top:
            self._check_call(outer, path, depth)
        elif not path and isinstance(outer, (ast.Call, ast.keyword)):
            call = outer if isinstance(outer, ast.Call) else parents[outer]
            assert isinstance(call, ast.Call)
            if self._callee_name(call) not in (*COPYING, "print"):
                self._argument(call, top, depth, self._network)
        elif not path and (isinstance(outer, ast.Compare) or self._asks_object(top)):
            pass
        elif self._structure and not path and isinstance(outer, ast.Assign) and self._is_ours(outer):
            self._renamed(outer.targets[0].id, depth)  # type: ignore[attr-defined]
        elif path and path[-1].isidentifier() and self._roles.get(World).are_numbers(top):  # type: ignore[arg-type]
            pass  # an option, such as `agent.discrete`
        elif isinstance(outer, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            raise Changed(f"line {node.lineno} gives {ast.unparse(top)} another name")
        elif self._structure and not path and isinstance(outer, ast.IfExp) and outer.test is not top:
            self._chosen(outer)
        elif not path or path[-1].startswith("_"):
            raise Changed(text)
        elif self._asks(top):
            pass
        elif not isinstance(outer, (ast.BinOp, ast.FormattedValue, ast.Compare)):
            call = parents[outer] if isinstance(outer, ast.keyword) else outer
            if isinstance(call, ast.Call) and self._tree.function_called(call) is not None:
                self._argument(call, top, depth, self._network)
            elif not (isinstance(call, ast.Call) and self._only_reads(call)) and path[-1] not in ("device", "dtype"):
                raise Changed(f"{text}, perhaps a part of the network, in a way that is not known")

    def _is_ours(self, stmt: ast.Assign) -> bool:
        """Whether a statement only binds one variable of the training scope."""
        plain = len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Name)
        return plain and stmt in statements(self._roles.scope.body)

    def _renamed(self, name: str, depth: int) -> None:
        """Check all uses of an alias of a network, and all other names with the same spelling."""
        if name in self._tree.declared:
            raise Changed(f"the network has the alias {name}, which functions may rebind")
        if depth > DEEP:
            raise Changed(f"the network has the alias {name}, by more than {DEEP} aliases and calls")
        for node in self._tree.of(ast.Name) if self._once(name, self._roles.scope, "renamed") else ():
            if node.id == name and isinstance(node.ctx, ast.Load):
                self._use_of_network(node, depth + 1)

    def _asks(self, value: ast.AST) -> bool:
        """Whether code only tests the truth of a value; `+value` may be the value itself."""
        outer = self._tree.parents[value]
        if isinstance(outer, ast.BoolOp):
            return self._asks(outer)
        negated = isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not)
        tested = isinstance(outer, (ast.If, ast.IfExp, ast.While, ast.Assert)) and outer.test is value
        return negated or tested

    def _asks_object(self, value: ast.AST) -> bool:
        """Whether code only tests the truth of an object, and no class of the file defines truth."""
        return self._asks(value) and not self._tree.decides_truth

    def _chosen(self, choice: ast.IfExp) -> None:
        """Check `net = target if args.target else agent`: the alias must only be called, without gradients.

        All names with the same spelling are checked, whatever they refer to.

        Raises:
            Changed: it may do more, or the expression is not given an alias.
        """
        stmt = self._tree.parents[choice]
        target = stmt.targets[0] if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else None
        if not isinstance(target, ast.Name) or stmt not in statements(self._roles.scope.body):
            raise Changed(f"line {choice.lineno} gives {ast.unparse(choice)} another name")
        for node in (n for n in self._tree.of(ast.Name) if n.id == target.id and isinstance(n.ctx, ast.Load)):
            asked = self._tree.parents[node]
            own = isinstance(asked, ast.Attribute) and self._is_own_method(asked.attr)
            own = own and getattr(asked, "attr", "") not in self._parts.handing_out
            call = self._tree.parents[asked] if own else asked
            called = isinstance(call, ast.Call) and call.func is (asked if own else node)
            if not called or not without_gradients(self._tree, node):
                raise Changed(f"line {node.lineno} uses {target.id}, which may be one of several networks")

    def _callee_name(self, call: ast.Call) -> str:
        """The qualified name of the called function, or the name of a method; "" if the file defines the name."""
        tree, func, name = self._tree, call.func, root(call.func) or ""
        qualified = tree.qualified(func)
        defined = name in tree.bound or name in tree.classes or tree.functions(name) or name in self._parameter_names
        if defined and (qualified or isinstance(func, ast.Name)):
            return ""
        return qualified or ast.unparse(func)

    @cached_property
    def _parameter_names(self) -> frozenset[str]:
        """The names of all parameters of the file's functions."""
        return frozenset(a.arg for a in self._tree.of(ast.arg))

    def _only_reads(self, call: ast.Call) -> bool:
        """Whether a callee only reads a tensor argument, or computes with it."""
        name = self._callee_name(call)
        if computes(name) or library_does(name) == "processes":
            return True
        return name in ("print", "float", "len", "id", "int") or name.rpartition(".")[2] in LOGS_VALUES

    def _check_call(self, call: ast.Call, path: list[str], depth: int) -> None:
        """Check a call of the network, of its method, or of a part's."""
        name = path[-1] if path else ""
        if name in PARAMETERS or name in self._parts.handing_out:
            self._check_parameters(call, depth)
            return
        assigns = name == "load_state_dict" and (len(call.args) > 2 or any(k.arg != "strict" for k in call.keywords))
        hands_out = name == "state_dict" and bool(call.args or call.keywords)  # keep_vars=True returns the parameters
        moves = name in MOVING and self._roles.outermost in self._tree.ancestors(call)
        part = len(path) == 1 and not name.startswith("_") and (self._is_own_part(name) or self._is_foreign(name))
        early = name == "requires_grad_" or (name == "apply" and self._structure)
        hooks = self._structure and name.startswith("register_") and "hook" in name
        if hooks or (early and not self._in_training(call)):
            return
        if (
            assigns
            or hands_out
            or moves
            or not (name in RUN or name in ("", "forward") or self._is_own_method(name) or part)
        ):
            advice = ": move the network above the training loop" if moves else ""
            raise Changed(f"line {call.lineno} calls {ast.unparse(call.func)}(){advice}")

    def _is_own_method(self, method: str) -> bool:
        """Whether the networks' classes define a method of this name; those have been checked."""
        return method != "__init__" and any(
            isinstance(s, ast.FunctionDef) and s.name == method for c in self._roles.network_classes for s in c.body
        )

    def _is_foreign(self, method: str) -> bool:
        """Whether a method is not torch's and the network's class is in another file; it is assumed only to compute."""
        return self._structure and not self._roles.network_classes and method not in OF_MODULE

    def _is_own_part(self, attribute: str) -> bool:
        """Whether the networks' classes set an attribute of this name."""
        stored = (n for c in self._roles.network_classes for n in walk(c) if isinstance(n, ast.Attribute))
        return any(n.attr == attribute and isinstance(n.ctx, ast.Store) for n in stored)

    def _argument(self, call: ast.Call, argument: ast.AST, depth: int, follow: object) -> None:
        """Check what a function of this file does with an argument.

        Raises:
            Changed: it is not a function of this file, or it is not clear which parameter gets the argument.
        """
        function = self._tree.function_called(call)
        text = f"line {call.lineno} gives {ast.unparse(argument)} to {ast.unparse(call.func)}()"
        matched = bind_arguments(function, call) if function is not None else None
        plain = function is not None and all(self._tree.calls(d, *NO_GRAD) for d in function.decorator_list)
        if function is None or matched is None or not plain or depth > DEEP:
            raise Changed(f"{text}, which may change it")
        for parameter, value in matched.given.items():
            if value is argument:
                follow(parameter, function, depth + 1)  # type: ignore[operator]

    def _check_parameters(self, node: ast.AST, depth: int) -> None:
        """Check the uses of a list or an iterator of parameters."""
        parents = self._tree.parents
        outer = parents[node]
        text = f"line {getattr(node, 'lineno', 1)} uses {ast.unparse(node)}"
        if isinstance(outer, (ast.List, ast.Tuple, ast.Dict, ast.BinOp, ast.IfExp, ast.Starred, ast.keyword)):
            self._check_parameters(outer, depth)
        elif isinstance(outer, ast.Call) and node is not outer.func:
            name = self._callee_name(outer)
            if _takes_parameters(name) or name in COPYING or name in TELLS:
                return
            if name in GATHERED or name == "itertools.chain":
                self._check_parameters(outer, depth)
            else:
                self._argument(outer, node, depth, self._list)
        elif isinstance(outer, (ast.For, ast.comprehension)) and outer.iter is node:
            within = outer if isinstance(outer, ast.For) else parents[outer]
            for target in (n for n in walk(outer.target) if isinstance(n, ast.Name)):
                self._elements(target.id, within)
            if isinstance(within, (ast.ListComp, ast.GeneratorExp)) and isinstance(within.elt, ast.Name):
                self._check_parameters(within, depth)
        elif isinstance(outer, ast.Assign) and [type(t) for t in outer.targets] == [ast.Name]:
            name_node = outer.targets[0]
            assert isinstance(name_node, ast.Name)
            self._list(name_node.id, self._tree.scope_of(outer), depth)
        elif isinstance(outer, ast.Attribute):
            if outer.attr not in READ:
                raise Changed(text)
        elif not isinstance(outer, (ast.Expr, ast.Compare)):
            raise Changed(text)

    def _list(self, name: str, scope: Scope, depth: int) -> None:
        """Check the uses of a name that holds parameters."""
        for node in self._loads(name, scope) if self._once(name, scope, "list") else ():
            self._check_parameters(node, depth)

    def _elements(self, name: str, within: ast.AST) -> None:
        """Check what a loop over parameters does with each of them.

        Raises:
            Changed: more than its value or its gradient may change.
        """
        parents = self._tree.parents
        for node in walk(within):
            if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
                continue
            outer, text = parents[node], f"line {node.lineno} uses {name}, a parameter of the network"
            if isinstance(outer, ast.Attribute):
                kept = {"grad", "data"} if self._structure else {"grad"}  # with new memory it is the same parameter
                sets = not isinstance(outer.ctx, ast.Load) and outer.attr not in kept
                early = outer.attr in ("requires_grad", "requires_grad_") and not self._in_training(outer)
                if not early and (sets or outer.attr not in READ | VALUES):
                    does = "sets" if sets else "uses"
                    why = f"line {node.lineno} {does} {outer.attr} of {name}, a parameter of the network"
                    if sets and outer.attr == "requires_grad":
                        why += "; leave it out if the next zero_grad() clears those gradients anyway"
                    raise Changed(why)
            elif isinstance(outer, ast.Call) and node in outer.args:
                if not self._only_reads(outer) and not _is_of_parameter(outer, within):
                    raise Changed(f"{text}, in {ast.unparse(outer.func)}()")
            elif not isinstance(outer, (ast.BinOp, ast.Compare, ast.ListComp, ast.GeneratorExp, ast.AugAssign)):
                raise Changed(text)

    def _in_training(self, node: ast.AST) -> bool:
        return not runs_before_training(self._roles, node)

    def _optimizer(self, name: str, scope: Scope, depth: int) -> None:
        """Check the uses of an optimizer, which holds the parameters."""
        parents = self._tree.parents
        for node in self._loads(name, scope) if self._once(name, scope, "optimizer") else ():
            outer = parents[node]
            if isinstance(outer, (ast.Call, ast.keyword)):
                call = outer if isinstance(outer, ast.Call) else parents[outer]
                assert isinstance(call, ast.Call)
                called = self._callee_name(call)
                stepped = isinstance(call.func, ast.Attribute) and self._is_scaler(call.func.value)
                if not _takes_parameters(called) and not stepped and called != "print":
                    self._argument(call, node, depth, self._optimizer)
            elif isinstance(outer, ast.Attribute) and outer.attr == "param_groups":
                self._groups(outer, depth)
            elif isinstance(outer, ast.Compare) or self._asks_object(node):
                pass
            elif getattr(outer, "attr", "") not in of_optimizers("stepping", "saving", "defaults"):
                raise Changed(f"line {node.lineno} uses {ast.unparse(outer)}, which may reach the parameters")

    def _is_scaler(self, value: ast.expr) -> bool:
        """Whether a name holds a gradient scaler of torch."""
        made = self._roles.only_value(value.id) if isinstance(value, ast.Name) else None
        return isinstance(made, ast.Call) and self._tree.calls(made, *SCALERS)

    def _groups(self, groups: ast.Attribute, depth: int) -> None:
        """Check `optimizer.param_groups`: anything in a group may be used except its parameters."""
        parents = self._tree.parents
        outer = parents[groups]
        used: Iterable[ast.AST] = ()
        if isinstance(outer, ast.Subscript):
            used = [outer]
        elif isinstance(outer, (ast.For, ast.comprehension)) and isinstance(outer.target, ast.Name):
            within, name = outer if isinstance(outer, ast.For) else parents[outer], outer.target.id
            used = [n for n in walk(within) if isinstance(n, ast.Name) and n.id == name and n is not outer.target]
        elif not (isinstance(outer, ast.Call) and ast.unparse(outer.func) in ("len", "print")):
            raise Changed(f"line {groups.lineno} uses {ast.unparse(outer)}")
        for group in used:
            entry = parents[group]
            read = isinstance(entry, ast.Subscript) and isinstance(entry.ctx, ast.Load)
            key = entry.slice if isinstance(entry, ast.Subscript) and entry.value is group else None
            if read and isinstance(key, ast.Constant) and key.value == "params":
                self._check_parameters(entry, depth)
            elif not isinstance(key, ast.Constant) or key.value == "params":
                raise Changed(f"line {groups.lineno} uses {ast.unparse(entry)}, which may reach the parameters")


def unsteady(roles: Roles) -> dict[str, str]:
    """The trained and target networks in which training may change more than parameter values, with the reason."""
    return NetworkUses(roles).obstacles((*roles.modules, *roles.target_networks))


def restructured(roles: Roles) -> dict[str, str]:
    """The trained networks whose parameters may be replaced or frozen, with the reason."""
    return NetworkUses(roles, structure=True).obstacles(roles.modules)


def _is_of_parameter(call: ast.Call, loop: ast.AST) -> bool:
    """Whether a call is a parameter's method that reads its arguments: `t.add_(p)`, in a loop over two networks'."""
    paired = isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and unparse(loop.iter.func) == "zip"
    if not paired or not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return False
    methods, owner = names("tensor", memory=("new", "in place")), call.func
    while isinstance(owner, ast.Attribute) and (owner.attr in methods or owner.attr == "data"):
        owner = owner.value.func if isinstance(owner.value, ast.Call) else owner.value
    ours = isinstance(owner, ast.Name) and owner.id in names_in([loop.target])
    return ours and all(calls_method(a, "parameters") for a in loop.iter.args)
