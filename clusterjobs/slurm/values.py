"""Values that Slurm takes: of slurm.conf's parameters, and of the options of sbatch and srun.

The parameters are in `slurm_conf.json`, which `tools/slurm_values.py` makes by asking Slurm. Slurm
reads names and words in any case.
"""

import functools
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.errors import nearest
from clusterjobs.slurm.options import seconds_of

CONF_FILE = pathlib.Path(__file__).with_name("slurm_conf.json")


class Wrong(NamedTuple):
    """What is wrong with a value, and what to write instead. `is_sure`: Slurm refuses it."""

    what: str
    hint: str
    is_sure: bool = True


# ------------------------------------------------------------------ slurm.conf


@functools.cache
def conf_parameters(level: str) -> Mapping[str, Mapping[str, Any]]:
    """What each parameter of a level takes, by its name: "cluster", "partition" or "node"."""
    data: dict[str, Any] = json.loads(CONF_FILE.read_text(encoding="utf-8"))
    found: Mapping[str, Mapping[str, Any]] = data[level]
    return found


@functools.cache
def _in_lower_case(level: str) -> Mapping[str, str]:
    return {name.lower(): name for name in conf_parameters(level)}


# Parameters whose value is that of an option of sbatch.
_AS_OPTION = {"propagateresourcelimits": "propagate", "propagateresourcelimitsexcept": "propagate"}


# A node has at least so many CPUs, and slurmctld ends with an error above the most that it counts.
_PARTS_OF_A_NODE = ("sockets", "socketsperboard", "corespersocket", "threadspercore")
_MOST_CPUS = 65532


def parameter_name(level: str, name: str) -> str:
    """The name as Slurm writes it; "" if there is no such parameter."""
    return _in_lower_case(level).get(name.lower(), "")


def wrong_conf_value(level: str, name: str, value: str) -> Wrong | None:
    """Why slurmctld refuses the value; None if it takes it, or if that is unknown."""
    if option := _AS_OPTION.get(name.lower()):
        return wrong_option_value(option, value)
    known = conf_parameters(level)[_in_lower_case(level)[name.lower()]]
    if level == "node" and name.lower() in _PARTS_OF_A_NODE:
        known = {**known, "most": _MOST_CPUS, "words": []}
    return _CHECKS[known["type"]](value.strip(), known) or _combination(name.lower(), value)


# Words of which one value may have only one. Found by asking slurmctld 22.05, 24.11 and 26.05.
_ONE_OF = {
    "prologflags": ("contain nohold", "nohold x11", "nohold runinjob"),
    "preemptmode": (
        *("cancel off requeue suspend", "off within", "off priority"),
        *("gang within", "gang priority"),
    ),
    "selecttypeparameters": (
        "cr_cpu cr_cpu_memory cr_core cr_core_memory cr_memory cr_socket cr_socket_memory",
        "cr_cpu cr_one_task_per_core",
        "cr_cpu_memory cr_one_task_per_core",
    ),
}
# Words of a value that need one of others beside them.
_NEEDS = {
    ("preemptmode", "suspend"): "gang within priority",
    ("preemptmode", "within"): "cancel requeue suspend",
    ("preemptmode", "priority"): "cancel requeue suspend",
}


def _combination(name: str, value: str) -> Wrong | None:
    """Why slurmctld refuses words together that it takes one by one."""
    words = [one.strip().lower() for one in value.split(",")]
    for group in _ONE_OF.get(name, ()):
        found = [one for one in dict.fromkeys(words) if one in group.split()]
        if len(found) > 1:
            together = " and ".join(map(str.upper, found))
            return Wrong(f"{together} cannot be combined", "keep one of them")
    for word in words:
        needed = _NEEDS.get((name, word), "")
        if needed and not {*needed.split()} & {*words}:
            others = " or ".join(needed.upper().split())
            return Wrong(f"{word.upper()} alone is not enough", f"add {others}")
    return None


def wrong_together(settings: Mapping[str, str]) -> Iterator[tuple[str, Wrong]]:
    """Parameters of a slurm.conf that slurmctld refuses beside the others; names in lower case."""
    kind, modes = (settings.get(name, "") for name in ("preempttype", "preemptmode"))
    preempts = bool({one.strip().lower() for one in modes.split(",")} - {"", "gang", "off"})
    if kind.lower().removeprefix("preempt/") not in ("", "none") and not preempts:
        hint = "add PreemptMode: REQUEUE, CANCEL or SUSPEND,GANG"
        yield "preempttype", Wrong(f"PreemptType {kind} needs a PreemptMode", hint)
    elif preempts and kind.lower().removeprefix("preempt/") in ("", "none"):
        hint = "add PreemptType: preempt/partition_prio or preempt/qos"
        yield "preemptmode", Wrong(f"PreemptMode {modes} needs a PreemptType", hint)
    half_life = settings.get("prioritydecayhalflife", "")
    if seconds_of(half_life) == 0 and settings.get("priorityusageresetperiod", "NONE") == "NONE":
        what = "usage would never be forgotten: PriorityDecayHalfLife is 0"
        yield "prioritydecayhalflife", Wrong(what, "add PriorityUsageResetPeriod, or write 7-0")
    if settings.get("mcsplugin", "").lower() == "mcs/group" and "mcsparameters" not in settings:
        yield "mcsplugin", Wrong("mcs/group needs MCSParameters", "add MCSParameters: GROUP")
    for name, needed in _BESIDE.items():
        if settings.get(name, "0") != "0" and needed.lower() not in settings:
            yield name, Wrong(f"it needs {needed}", f"add {needed}")
    flags = settings.get("prologflags", "").lower()
    for name in ("jobcontainertype", "namespacetype"):
        kind = settings.get(name, "").lower()
        if kind.endswith(("/tmpfs", "/linux")) and not {*flags.split(",")} & {"contain", "x11"}:
            yield name, Wrong(f"{kind} needs PrologFlags=Contain", "add PrologFlags: Contain")
    select = settings.get("selecttypeparameters", "")
    is_linear = "linear" in settings.get("selecttype", "").lower()
    names_one = re.search("cr_(cpu|core(?!_default)|socket)", select.lower())
    if select and not (is_linear or names_one):
        what = f"{select} does not say what Slurm divides"
        hint = "add CR_Core_Memory, or another CR_CPU, CR_Core or CR_Socket"
        yield "selecttypeparameters", Wrong(what, hint)
    first, last = settings.get("firstjobid", "1"), settings.get("maxjobid", str(_MAX_JOB_ID))
    if first.isdigit() and last.isdigit() and int(first) > int(last):
        what = f"FirstJobId {first} is above MaxJobId, {last}"
        yield "firstjobid", Wrong(what, "write a smaller number")


_MAX_JOB_ID = 67043328  # Slurm's default
_BESIDE = {"mcsparameters": "MCSPlugin", "slurmschedloglevel": "SlurmSchedLogFile"}


def _number(value: str, known: Mapping[str, Any]) -> Wrong | None:
    least, most, words = known["least"], known["most"], known["words"]
    if value.upper() in words:
        return None
    also = f", or {' or '.join(words)}" if words else ""
    # Slurm reads numbers as strtoul does, octal ones after a 0, and takes k for 1024 where they
    # have 32 bits or more.
    found = re.fullmatch(r"([+-]?(?:0[0-7]*|[1-9][0-9]*|0[xX][0-9a-fA-F]+))([kK]?)", value)
    if not found or (found[2] and 0 < most <= _MOST_OF_16_BITS):
        unit = "units are not taken: " if re.match(r"[0-9]+", value) else ""
        return Wrong(f"{value!r} is not a number", f"{unit}write digits alone{also}")
    base = 0 if "x" in found[1].lower() else 8 if found[1].lstrip("+-").startswith("0") else 10
    number = int(found[1], base) * (1024 if found[2] else 1)
    if number < least or (most and number > most):
        upper = f" to {most}" if most else ""
        return Wrong(f"{value} is out of range", f"write a number from {least}{upper}{also}")
    return None


_MOST_OF_16_BITS = 65535


def _time(value: str, known: Mapping[str, Any]) -> Wrong | None:
    # Source: time_str2mins of Slurm: -1 is UNLIMITED.
    # Where it has no word for no limit, the time must not be zero, either.
    seconds, words = seconds_of(value), known["words"]
    if seconds or (words and (value.upper() in words or value == "-1" or seconds == 0)):
        return None
    also = f", or {known['words'][0]}" if known["words"] else ""
    return Wrong(f"{value!r} is not a time", f"write 90 (minutes), 36:00:00 or 1-12:00:00{also}")


def _flag(value: str, known: Mapping[str, Any]) -> Wrong | None:
    return None if _has(value, known["values"]) else Wrong(f"{value!r} is no flag", "YES or NO")


def _one(value: str, known: Mapping[str, Any]) -> Wrong | None:
    # Some words take a number: OverSubscribe=FORCE:4.
    if _has(value, known["values"]) or _has(value.partition(":")[0], known["values"]):
        return None
    return _unknown(value, known["values"])


def _some(value: str, known: Mapping[str, Any]) -> Wrong | None:
    words = [one.strip() for one in value.split(",")]
    return next(filter(None, (_one(one, known) for one in words)), None)


def _plugin(value: str, known: Mapping[str, Any]) -> Wrong | None:
    kind, values = known["kind"], known["values"]
    name = value.removeprefix(f"{kind}/")
    if name in values or not name:
        return None
    shown = [f"{kind}/{one}" for one in values]
    is_own = kind in ("job_submit", "cli_filter", "prep", "site_factor")
    wrong = _unknown(value, shown)
    return Wrong(f"Slurm has no plugin {value!r}", wrong.hint, is_sure=not is_own)


def _plugins(value: str, known: Mapping[str, Any]) -> Wrong | None:
    found = (_plugin(one.strip(), known) for one in value.split(","))
    return next(filter(None, found), None)


def _form(value: str, known: Mapping[str, Any]) -> Wrong | None:
    if _fits(known["pattern"], value):
        return None
    return Wrong(f"Slurm cannot read {value!r}", known["hint"])


def _unknown(value: str, values: list[str]) -> Wrong:
    match = nearest(value.lower(), [one.lower() for one in values])
    meant = next((one for one in values if one.lower() == match), "")
    what = f"{value!r} is none of its values"
    return Wrong(what, f"did you mean {meant}?" if meant else f"known: {', '.join(values)}")


def _has(value: str, values: list[str]) -> bool:
    return value.lower() in {one.lower() for one in values}


_CHECKS: dict[str, Callable[[str, Mapping[str, Any]], Wrong | None]] = {
    "text": lambda _value, _known: None,
    "number": _number,
    "time": _time,
    "flag": _flag,
    "one": _one,
    "some": _some,
    "plugin": _plugin,
    "plugins": _plugins,
    "form": _form,
}


# ------------------------------------------------------------------ sbatch and srun
# Source: sbatch(1), and sbatch of Slurm 22.05.8, 24.11.5 and 26.05.5, which were asked: a value
# that one of them takes is right. Refused here alone: letters that it reads as 0 (nice, priority,
# single:x of gpu-bind), what follows digits or a word, empty values, and spaces before a number.


class Form(NamedTuple):
    """What an option takes: a pattern in any case, how to write it, and the largest number."""

    pattern: str
    hint: str
    most: int = 0


_MOST_OF_32_BITS = 2147483646  # Slurm 24.11: less than INT_MAX
_COUNT = Form(r"\+?0*[1-9]\d*", "write a number from 1", _MOST_OF_32_BITS)
_NUMBER = Form(r"\+?\d+", "write a number", _MOST_OF_32_BITS)
_MONTH, _DAY = r"(0?[1-9]|1[0-2])", r"(0?[1-9]|[12]\d|3[01])"
_YMD = rf"\d{{4}}-(0[1-9]|1[0-2])-{_DAY}|{_MONTH}[/.]{_DAY}([/.]\d\d)?"
_DATE = rf"({_YMD}|(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(\d\d)?|(?-i:today|tomorrow))"
_MINUTES = r"[:.][0-5]\d([:.][0-5]\d)?"
_CLOCK = rf"(([01]?\d|2[0-3]){_MINUTES}|(0?\d|1[0-2]){_MINUTES} *[ap]m)"
_CLOCK = rf"({_CLOCK}|midnight|noon|fika|teatime|elevenses)"
_UNIT = r"((second|minute|hour|day|week)s?)?"
_WHEN = rf"(now( *[+-] *\d+ *{_UNIT})?|{_DATE}((?-i:[T -]){_CLOCK})?|{_CLOCK}( {_DATE})?)"
_JOBS = r"\d+(_\d+|_\*)?(\+\d+)?(:\d+(_\d+|_\*)?(\+\d+)?)*"
_NEED = rf"(after(any|notok|ok|burstbuffer|corr)?:{_JOBS}|expand:\d+|singleton|\d+(_\d+|_\*)?)"
_SIGNALS = "HUP|INT|QUIT|ABRT|KILL|ALRM|TERM|USR1|USR2|URG|CONT|STOP|TSTP|TTIN|TTOU|XCPU|CHLD|PIPE"
_MAIL = (
    *("NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT"),
    *("TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS"),
)

_TASKS = r"(\*|block|cyclic)(:(\*|block|f?cyclic)){0,2}(:?|,(no)?pack)"
_TASKS = rf"{_TASKS}|arbitrary|plane=\+?0*[1-9]\d*|(no)?pack"
_SPEED = r"(0*[1-9]\d*|(lo|med|hi)\w*)"  # Slurm reads the first letters of words
_GOVERNOR = r"(co|onde|perf|pow|sche|user)\w*"
_SAMPLED = r"((task|energy|network|filesystem)=)?\d[\w.]*"
_LIMITS = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")
_LIMIT = rf"(RLIMIT_)?({'|'.join(_LIMITS)})"
_GPU_SPEED = r"(memory=)?(low|medium|highm1|high|\d+)|verbose"
_NUMBERS = r"\d+(\*\d+)?(,\d+(\*\d+)?)*"
_MASKS = r"((?-i:0x))?[0-9a-f]+(\*\d+)?(,((?-i:0x))?[0-9a-f]+(\*\d+)?)*"
_MEM = r"none|no|local|rank|prefer|p|sort|nosort|q(uiet)?|v(erbose)?"
_MEM = rf"{_MEM}|map_mem:{_NUMBERS}|mask_mem:{_MASKS}"
_GPU_BIND = rf"none|close.*|(single|per_task):\d+|map(_gpu)?:{_NUMBERS}|mask(_gpu)?:{_MASKS}"
_GPU_BIND = rf"(verbose,)?({_GPU_BIND})"
_TRES_BIND = _GPU_BIND.replace("close.*", "closest")
_RANGES = r"\[\d+(-\d+)?(,\d+(-\d+)?)*\]"
_NODES = rf" *[^][, ]*({_RANGES}[^][, ]*)* *"
_PARTS = r"(\*(-(\*|\d+))?|\d+(-0*[1-9]\d*)?)"
_OF_SRUN = "allow-task-sharing"  # of gres-flags; sbatch refuses it
_LICENSE = r"[^\s,;:=*|]+([:=] ?\d+)?"
_NAME = r"[^][\s&|,()*]+"
_FEATURE = rf"({_NAME}|\({_NAME}([&|,]{_NAME})*\))(\*0*[1-9]\d*)?"
_FEATURES = rf"({_FEATURE}|\[{_FEATURE}([&|,]{_FEATURE})*\])"
_BINDING = [
    _OF_SRUN,
    "disable-binding",
    "enforce-binding",
    "multiple-tasks-per-sharing",
    "one-task-per-sharing",
]


def _words(*words: str, several: bool = False) -> Form:
    one = "|".join(map(re.escape, words))
    joined = ", ".join(words)
    if several:
        return Form(rf"({one})(,({one}))*", f"known, with commas between them: {joined}")
    return Form(one, f"known: {joined}")


_OPTIONS: dict[str, Form] = {
    **dict.fromkeys(
        ("mincpus", "ntasks-per-core", "ntasks-per-socket", "cores-per-socket"), _COUNT
    ),
    **dict.fromkeys(
        ("sockets-per-node", "threads-per-core", "thread-spec", "ntasks-per-tres"), _COUNT
    ),
    **dict.fromkeys(("core-spec", "resv-ports"), _NUMBER),
    "segment": _NUMBER._replace(most=65533),
    **dict.fromkeys(
        ("mem", "mem-per-cpu", "mem-per-gpu", "tmp"),
        Form(r"\+?\d+([KMGT]B?)?", "write a number with K, M, G or T, for example 64G"),
    ),
    **dict.fromkeys(
        ("exclude", "nodelist"),
        Form(rf"{_NODES}(,{_NODES})*", "write names and ranges, as n1,n[02-05]"),
    ),
    **dict.fromkeys(
        ("begin", "deadline"), Form(_WHEN, "write 16:00, now+1hour, tomorrow or 2027-01-31T08:00")
    ),
    "acctg-freq": Form(
        rf"{_SAMPLED}(, *{_SAMPLED})*", "write seconds, or task=30,energy=60", 4294967294
    ),
    "cpu-freq": Form(
        rf"{_SPEED}(-{_SPEED}(:{_GOVERNOR})?|:user\w*)?|{_GOVERNOR}",
        "write kHz, low, medium, high or a governor",
    ),
    "dependency": Form(
        rf"{_NEED}([,?]{_NEED})*", "write afterok:1234, afterany:1234:1235 or singleton"
    ),
    "distribution": Form(_TASKS, "write block, cyclic, plane=4 or block:cyclic"),
    "extra-node-info": Form(
        rf"{_PARTS}(:{_PARTS}){{0,2}}:?", "write SOCKETS:CORES:THREADS, as 2:8:1", _MOST_OF_32_BITS
    ),
    "constraint": Form(
        rf"{_FEATURES}([&|,]{_FEATURES})*\|?", "write a100, a100|h100, ib&ssd or [rack1|rack2]"
    ),
    "licenses": Form(rf"{_LICENSE}([,;|]{_LICENSE})*,?", "write NAME:COUNT, as matlab:2,fluent:1"),
    "exclusive": _words("user", "mcs", "topo", "exclusive"),
    "get-user-env": Form(r"\d*[SL]?", "write seconds, with S or L for the kind of shell"),
    "gpu-bind": Form(
        _GPU_BIND,
        "write closest, none, single:4, per_task:1, map_gpu:0,1 or mask_gpu:0x3",
    ),
    "gpu-freq": Form(
        rf"(?-i:({_GPU_SPEED})(,({_GPU_SPEED}))*)",  # in this case alone
        "write MHz, low, medium, high or highm1; memory=low for the memory",
    ),
    "tres-bind": Form(
        rf"(?-i:gres/[\w/-]+:{_TRES_BIND}(\+gres/[\w/-]+:{_TRES_BIND})*)",
        "write gres/NAME: before it, gres/gpu:closest",
    ),
    "gres-flags": _words(*_BINDING, several=True),
    "kill-on-invalid-dep": _words("yes", "no"),
    "mem-bind": Form(
        rf"({_MEM})(,({_MEM}))*",
        "write local, rank, none, prefer,local, map_mem:0,1 or mask_mem:0x3",
    ),
    "mail-type": _words(*_MAIL, several=True),
    "nice": Form(r"[+-]?\d+", "write a number, for example 100", 2147483645),
    "mem-update": Form(r"0*[1-9]\d*@0*[1-9]\d*", "write percent and seconds, 10@30"),
    "no-kill": _words("off", "no", "set"),
    "oom-kill-step": Form(r"0*[01]", "write 0 or 1"),
    "priority": Form(r"top|\d+", "write a number, or TOP", 4294967293),
    "open-mode": Form(r"[at]\w*", "write append or truncate"),
    "profile": _words("all", "none", "energy", "task", "lustre", "network", several=True),
    "propagate": Form(
        rf"(?-i:|ALL|NONE|{_LIMIT}([, ]+{_LIMIT})*[, ]*)",  # in this case alone
        f"write ALL, NONE or some of {', '.join(_LIMITS)}",
    ),
    "requeue": _words("expedite"),
    "signal": Form(
        rf"([RB]{{1,2}}:)?((SIG)?({_SIGNALS})|0*[1-9]\d*)(@\d+)?",
        "write a signal and seconds before the end, for example B:USR1@300",
        _MOST_OF_16_BITS,
    ),
    "switches": Form(
        r"\+?0*[1-9]\d*(@([\d:-]+|unlimited|infinite))?",
        "write a number, with @ and a time if it may wait",
        _MOST_OF_32_BITS,
    ),
    "wait-all-nodes": Form(r"\+?0*[01]", "write 0 or 1"),
}
# Values that not every version takes: an option, a pattern, and the versions that take it.
_ONLY_IN = (
    ("exclusive", "topo", "24.11 26.05"),
    ("gres-flags", ".*sharing.*|.*,.*", "24.11 26.05"),
    ("signal", r"(\w+:)?(SIG)?(CHLD|PIPE)\b.*", "24.11 26.05"),
    ("begin", "elevenses", "24.11 26.05"),
    ("gpu-bind", r"(verbose,)?ma(p|sk):.*", "24.11 26.05"),
    ("gpu-bind", r"(verbose,)?close(?!st$).*", "22.05"),
    ("cpu-freq", r"[^-]+:.*", "24.11 26.05"),
    ("cpu-freq", r"[^:]+-[^:]+", "22.05"),
    ("mem-bind", r"(.*,)?(no)?sort(,.*)?", "22.05 24.11"),
    ("get-user-env", ".+", "22.05 24.11"),
    ("requeue", ".+", "26.05"),
    ("licenses", r".*\|.*", "26.05"),
    ("licenses", ".*=.*", "24.11 26.05"),
)
_TIMES = ("time-min", "delay-boot")


def _falling_speeds(value: str) -> tuple[str, str] | None:
    """The two speeds of --cpu-freq if the first is the higher one, as Slurm orders them."""
    found = re.match(r"([^-:]+)-([^-:]+)", value.lower())
    return (found[1], found[2]) if found and _speed(found[1]) > _speed(found[2]) else None


def _speed(word: str) -> int:
    """The speed's place in Slurm's order: numbers, low, medium, high, highm1."""
    names = ("highm1", "hi", "med", "lo")
    after = next((at for at, name in enumerate(names) if word.startswith(name)), None)
    return int(word) if after is None else 2**32 - after


def versions_of_value(name: str, value: str) -> tuple[str, ...]:
    """The versions of Slurm that take the value; () if every one does."""
    found = (v for option, one, v in _ONLY_IN if option == name and _fits(one, value))
    return (*next(found, "").split(),)


def _fits(pattern: str, value: str) -> bool:
    return bool(re.fullmatch(pattern, value, re.ASCII | re.IGNORECASE))


def wrong_option_value(name: str, value: str, program: str = "sbatch") -> Wrong | None:
    """Why sbatch or srun refuses an option's value; None if it takes it, or if that is unknown."""
    if name == "gres-flags" and program == "sbatch" and _OF_SRUN in value.lower():
        return Wrong(f"{_OF_SRUN} is only for srun", f"write srun: {{{name}: {_OF_SRUN}}}")
    if name == "time-min" and (seconds_of(value) == 0 or value == "-1"):
        return Wrong("no job can have this least time limit", "write a time, as 1:00:00")
    if name in _TIMES:
        return _time(value, {"words": ["UNLIMITED", "INFINITE"]})
    form = _OPTIONS.get(name)
    if form is None:
        return None
    if _fits(form.pattern, value):
        if name == "cpu-freq" and (speeds := _falling_speeds(value)):
            lower = "the lower speed comes first; to Slurm, every number is below low"
            return Wrong(f"{speeds[0]} is above {speeds[1]} for Slurm", lower)
        numbers = re.findall(r"\d+", value) if form.most else ()
        if all(int(one) <= form.most for one in numbers):
            return None
        return Wrong(f"{value} is out of range for --{name}", f"at most {form.most}")
    if name == "mail-type" and any(one.strip().upper() in _MAIL for one in value.split(",")):
        return Wrong(f"sbatch ignores what it does not know in {value!r}", form.hint, is_sure=False)
    return Wrong(f"Slurm does not take {value!r} as --{name}", form.hint)
