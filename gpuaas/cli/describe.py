"""How is one object described to a person? Labelled lines, parts that are unknown named so."""

from collections.abc import Iterable, Iterator
from typing import Any

from gpuaas.cli import values
from gpuaas.cli.kinds import slots, target
from gpuaas.cli.output import bold, paint
from gpuaas.cli.problems import Json

_TRUTHS = ("desired", "observed", "executing", "projected")


def lines(pairs: Iterable[tuple[str, str]], *, indent: int = 0) -> Iterator[str]:
    """`label  value` lines, the labels padded alike."""
    kept = [(label, value) for label, value in pairs if value not in {"", "-"}]
    width = max((len(label) for label, _ in kept), default=0)
    for label, value in kept:
        yield " " * indent + f"{label:<{width}}  {paint(value)}"


def anything(item: Json) -> Iterator[str]:
    """Every member of an object, in the server's order and the units their names declare."""
    nested: list[tuple[str, Any]] = []
    flat: list[tuple[str, str]] = []
    for key, value in item.items():
        label = _label(key)
        if isinstance(value, dict | list) and value:
            nested.append((label, value))
        elif key.endswith("_at"):
            flat.append((label.removesuffix(" at"), stamp(value)))
        else:
            flat.append((label, values.fact(key, value)))
    yield from lines(flat)
    for label, value in nested:
        yield bold(label)
        if isinstance(value, dict):
            yield from lines(((k, values.fact(k, v)) for k, v in value.items()), indent=2)
            continue
        for entry in value:
            shown = values.facts(entry) if isinstance(entry, dict) else values.text(entry)
            yield f"  {shown}"


def reason(item: Json) -> Iterator[str]:
    """A reason code: what it means, what would help here, and whether to try again."""
    yield from lines(
        [
            ("Code", values.text(item.get("code"))),
            ("Means", values.text(item.get("title"))),
            ("What would help", values.text(item.get("unblock"))),
            ("HTTP status", values.text(item.get("status"))),
            ("Try again", "later, as it is" if item.get("retryable") else "once something changed"),
        ]
    )


def _label(key: str) -> str:
    name = values.fact_name(key).replace("_", " ").capitalize()
    return {"Id": "ID", "Boot id": "Boot ID", "Exclusive nic": "Exclusive NIC"}.get(name, name)


def stamp(value: Any) -> str:
    """A moment with its age, or nothing."""
    if not value:
        return ""
    return f"{values.clock_time(value)} UTC ({values.since(value)})"


def allocation(item: Json) -> Iterator[str]:
    """An allocation with its connection, price and four states, each with its age."""
    price = item.get("price_hour_micro")
    currency = str(item.get("currency") or "")
    connection = item.get("connection") or {}
    yield from lines(
        [
            ("Name", values.text(item.get("name"))),
            ("ID", values.text(item.get("id"))),
            ("State", values.text(item.get("state"))),
            ("Phase", values.text(item.get("phase"))),
            ("Outcome", values.text(item.get("outcome"))),
            ("Reason", values.text(item.get("outcome_code"))),
            ("Detail", values.text(item.get("outcome_detail"))),
            ("SKU", name_of(item.get("sku"))),
            ("Shape", values.text(item.get("shape"))),
            ("Slots", slots(item)),
            ("Image", values.text(item.get("image"))),
            ("Tier", name_of(item.get("tier"))),
            ("Project", name_of(item.get("project"))),
            ("Tenant", name_of(item.get("tenant"))),
            ("Node", name_of(item.get("node"))),
            ("Price", "" if price is None else f"{values.money(price, currency)} an hour"),
            ("Created", stamp(item.get("created_at"))),
            ("Active", stamp(item.get("active_at"))),
            ("Released", stamp(item.get("released_at"))),
            ("Connect", values.text(connection.get("command"))),
            ("Request", values.text(item.get("request_id"))),
        ]
    )
    yield from _states(item)


def node(item: Json) -> Iterator[str]:
    """A node: its facts, its four states with their ages, its drains and conditions."""
    yield from anything({key: value for key, value in item.items() if key != "states"})
    yield from _states(item)


def operation(item: Json) -> Iterator[str]:
    """An operation: how far it is, its steps, and its result or error."""
    progress = item.get("progress") or {}
    percent = progress.get("percent")
    yield from lines(
        [
            ("ID", values.text(item.get("id"))),
            ("Kind", values.text(item.get("kind"))),
            ("Target", target(item)),
            ("State", values.text(item.get("state"))),
            ("Step", values.text(progress.get("step"))),
            ("Progress", "" if percent is None else f"{percent}%"),
            ("Message", values.text(progress.get("message"))),
            ("Attempt", values.text((item.get("metadata") or {}).get("attempt"))),
            ("Cancellable", values.text(item.get("cancellable"))),
            ("Created", stamp(item.get("created_at"))),
            ("Updated", stamp(item.get("updated_at"))),
        ]
    )
    steps = item.get("steps")
    if isinstance(steps, list) and steps:
        yield bold("Steps")
        for step in steps:
            yield f"  {step_line(step)}"
    if isinstance(item.get("result"), dict) and item["result"]:
        yield bold("Result")
        yield from lines(((k, values.fact(k, v)) for k, v in item["result"].items()), indent=2)
    error = item.get("error")
    if isinstance(error, dict):
        yield bold("Error")
        yield from lines(((k, values.fact(k, v)) for k, v in error.items()), indent=2)


def step_line(step: Any) -> str:
    """One step of an operation: name, state, attempt, how long it took."""
    if not isinstance(step, dict):
        return values.text(step)
    name = values.text(step.get("name") or step.get("step"))
    state = values.text(step.get("state"))
    attempt = step.get("attempt") or 0
    started = values.moment(step.get("started_at"))
    ended = values.moment(step.get("ended_at"))
    took = f" in {values.span((ended - started).total_seconds())}" if started and ended else ""
    again = f" (attempt {attempt})" if isinstance(attempt, int) and attempt > 1 else ""
    error = step.get("error")
    why = error.get("code") if isinstance(error, dict) else None
    said = " ".join(values.text(part) for part in (why, step.get("detail")) if part)
    detail = f", {said}" if said else ""
    return f"{name}: {paint(state)}{again}{took}{detail}"


def plan(item: Json) -> Iterator[str]:
    """What a create would do: whether it fits, what it costs, and the envelope before and after."""
    currency = str(item.get("currency") or "")
    fits = item.get("fits")
    envelope = item.get("envelope") or {}
    hour, month = item.get("price_hour_micro"), item.get("price_month_micro")
    yield from lines(
        [
            ("Fits now", values.text(fits)),
            ("Place in the queue", "" if fits else values.text(item.get("queue_position"))),
            ("Price", "" if hour is None else f"{values.money(hour, currency)} an hour"),
            ("", "" if month is None else f"{values.money(month, currency)} a month"),
            ("Node", values.text(item.get("node_hint"))),
            (
                "Envelope",
                ""
                if not envelope
                else f"{_amount(envelope, 'before')} used before, {_amount(envelope, 'after')} "
                f"after, of {_amount(envelope, 'limit')}",
            ),
        ]
    )
    decision = item.get("decision")
    if isinstance(decision, dict):
        yield from explanation(decision)


def change_plan(item: Json) -> Iterator[str]:
    """What a change of a workload would do: what is wanted, taken, released and paid."""
    currency = str(item.get("currency") or "")
    before, after = item.get("before") or {}, item.get("after") or {}
    names = [values.clean(str(one.get("name") or "")) for one in item.get("releases") or []]
    late = "once the new ones run" if item.get("released_after") else "at once"
    hour, then = item.get("workload_hour_before_micro"), item.get("workload_hour_after_micro")
    yield from lines(
        [
            *(
                (
                    name.replace("_", " ").capitalize(),
                    f"{values.text(before[name])} -> {values.text(after[name])}",
                )
                for name in after
                if name in before
            ),
            ("Placed anew", values.text(item.get("takes"))),
            ("Released", f"{', '.join(names)}, {late}" if names else ""),
            ("Waiting", values.text(item.get("waiting")) if item.get("waiting") else ""),
            (
                "Workload",
                ""
                if hour is None or then is None
                else f"{values.money(hour, currency)} an hour before, "
                f"{values.money(then, currency)} after",
            ),
        ]
    )
    yield from plan(item)


def explanation(decision: Json) -> Iterator[str]:
    """A decision trace: the gates in order with their numbers, the choice, and what would help."""
    verdict = values.text(decision.get("verdict"))
    code = f"  {values.clean(str(decision['code']))}" if decision.get("code") else ""
    outcome = values.text(decision.get("outcome")).replace("_", " ")
    how = f"  ({outcome})" if decision.get("outcome") not in {None, "", "admitted"} else ""
    yield f"{bold('Decision')}  {paint(verdict)}{code}{how}"
    gates = decision.get("gates") or []
    width = max((len(values.text(gate.get("gate"))) for gate in gates), default=0)
    digits = len(str(len(gates)))
    for number, gate in enumerate(gates, 1):
        passed = gate.get("passed")
        mark = paint("ok", "pass") if passed else paint("fail", "FAIL")
        if passed is None:
            mark = "skip"
        name = values.text(gate.get("gate"))
        code = "" if passed or not gate.get("code") else f"  {values.clean(str(gate['code']))}"
        detail = values.clean(str(gate.get("detail") or ""))
        line = f"  {number:>{digits}}. {name:<{width}}  {mark}{code}"
        yield f"{line}  {detail}" if detail else line
        numbers = values.facts(gate.get("facts") or {})
        if numbers:
            yield f"  {'':<{digits}}  {'':<{width}}        {numbers}"
    told = {
        one.get("rank"): values.text(one.get("words")) for one in decision.get("compared") or []
    }
    yield from lines(
        [
            ("Winner", told.get("chosen") or _candidate(decision.get("winner"))),
            ("Runner-up", told.get("second") or _candidate(decision.get("runner_up"))),
            ("Why", values.text(decision.get("why"))),
            ("What would help", values.text(decision.get("unblock"))),
        ]
    )
    stands = decision.get("allocation")
    if isinstance(stands, dict) and stands.get("code"):
        yield from lines(
            [
                ("Stands", f"{values.text(stands.get('state'))}  {values.text(stands['code'])}"),
                ("Because", values.text(stands.get("detail"))),
                ("What would help", values.text(stands.get("unblock"))),
            ]
        )


def name_of(value: Any) -> str:
    """The name of a reference, which the server gives as text or as an object."""
    if isinstance(value, dict):
        return values.text(value.get("name") or value.get("id"))
    return values.text(value)


def _candidate(value: Any) -> str:
    if isinstance(value, dict):
        name = value.get("node") or value.get("name") or ""
        rest = values.facts({k: v for k, v in value.items() if k not in {"node", "name"}})
        return f"{name_of(name)} ({rest})" if rest and name else rest or name_of(name)
    return values.text(value)


def _states(item: Json) -> Iterator[str]:
    states = item.get("states")
    if isinstance(states, dict):
        yield bold("States")
        yield from lines(
            [(name.capitalize(), _truth(states.get(name))) for name in _TRUTHS], indent=2
        )


def _truth(entry: Any) -> str:
    if not isinstance(entry, dict) or entry.get("value") is None:
        return "unknown"
    value = values.text(entry.get("value"))
    seconds = entry.get("age_s")
    shown = f"{value} ({values.span(seconds)} old)" if seconds is not None else value
    drift = entry.get("drift")
    return f"{shown}, drift: {values.text(drift)}" if drift else shown


def _amount(envelope: Json, name: str) -> str:
    for key in (f"{name}_milli", name):
        if envelope.get(key) is not None:
            return values.units(envelope[key])
    return "-"
