"""Ray Serve: applications of a serve config, and Ray Serve LLM's models (`llm_configs`), alone or in a RayService."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from infopt.gate.arguments import settings_of
from infopt.gate.config_files import arguments_of, plain_value
from infopt.gate.engine_calls import engine_call
from infopt.gate.engines import DATA
from infopt.gate.found import Argument, Found, argument_of
from infopt.gate.nodes import Node, Text, at, get, integer, items, mapping, text
from infopt.gate.readers.pods import items_of, line_of
from infopt.gate.readers.ray_clusters import Cluster, hardware_of, host_of
from infopt.gate.readers.ray_llm import configs, engine_name, is_model, today
from infopt.records import Record, read_yaml, validate_record

BUILDER = "ray.serve.llm"
ENGINE_WORDS = re.compile(r"(?<![a-z])(vllm|sglang)(?![a-z])[-_:]?v?(\d+\.\d+\.\d+(?:\.post\d+)?)?")
PINNED = re.compile(r"(vllm|sglang)(?:\[[^\]]*\])?\s*==\s*(\d[\w.]*).*")
UNPINNED = re.compile(r"(vllm|sglang)(?:\[[^\]]*\])?\s*([<>~!;@ ].*)?")
BY_NAME = "variables of the application are taken for the engine's options by their names: its program is elsewhere"


class Variables(Record):
    """See data/ray.yaml."""

    variables: dict[str, str]
    source: str


def recognises(document: Node) -> bool:
    """Whether a file without a kind is a serve config, or the config of one of Ray's models."""
    if not isinstance(document, dict) or "apiVersion" in document:
        return False
    if is_model(document):
        return True
    apps = items_of(document.get("applications"))
    return bool(apps) and all(text(get(app, "import_path")) is not None for app in apps)


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The models; the cluster they run on stands elsewhere."""
    if is_model(document):
        yield llm(document, "", Cluster())
        return
    yield from applications(document, "serve", Cluster(), outside)


def applications(config: Node, service: str, cluster: Cluster, outside: Mapping[str, Text]) -> Iterator[Found]:
    """What every application of a serve config serves."""
    for position, app in enumerate(items_of(get(config, "applications"))):
        name = f"{service}-{text(get(app, 'name')) or position}"
        path = f"applications[{position}]"
        models = list(configs(app, outside))
        if models:
            yield from (replace(llm(one, name, cluster, app), role=role) for one, role in models)
        elif (made := application(app, name, path, cluster, outside)) is not None:
            yield made


def application(app: Node, name: str, path: str, cluster: Cluster, outside: Mapping[str, Text]) -> Found | None:
    """An application with a program of its own: by the program where it is at hand, else by its variables' names."""
    own = {
        str(key): value for key, value in mapping(get(app, "runtime_env.env_vars")).items() if isinstance(value, Text)
    }
    given = {str(key).upper(): value for key, value in mapping(get(app, "args")).items() if isinstance(value, Text)}
    environment = {**cluster.environment, **own, **given}
    program = _program(text(get(app, "import_path")), outside)
    call = engine_call(program, environment) if program is not None else None
    engine, version = engine_of(app, cluster)
    if call is None and not engine:
        return None
    engine = call.engine if call is not None else engine
    added = call.arguments if call is not None else tuple(by_name(engine, environment))
    most, replicas = _replicas(items_of(get(app, "deployments")))
    asked = max((_devices(one) or 0 for one in items_of(get(app, "deployments"))), default=0)
    return Found(
        name=name,
        form="Ray Serve application",
        line=line_of(app),
        image=cluster.image,
        engine=engine,
        version=version,
        added=added,
        hardware=hardware_of(cluster, max(_ranks(added), asked), most, replicas),
        host=host_of(cluster),
        assumed=() if call is not None or not added else (BY_NAME,),
    )


def llm(config: Node, name: str, cluster: Cluster, app: Node = None) -> Found:
    """A model of Ray Serve LLM, which runs vLLM unless told otherwise; of a path alone nothing more is known."""
    path = config if isinstance(config, Text) else None
    config = today(config)
    loading = get(config, "model_loading_config")
    source = text(get(loading, "model_source")) or text(get(loading, "model_source.bucket_uri"))
    model = source or text(get(loading, "model_id"))
    stated = engine_name(config)
    version = engine_of(app, cluster)[1]
    options = arguments_of(stated, version and str(version), get(config, "engine_kwargs"), "engine_kwargs")
    added = [argument_of("--model", model, "model_loading_config")] if model is not None else []
    kind = text(get(config, "accelerator_type"))
    most, replicas = _replicas([get(config, "deployment_config")])
    wanted = max(_ranks(options), _bundles(get(config, "placement_group_config.bundles")))
    identity = text(get(loading, "model_id"))
    return Found(
        name="-".join(str(part) for part in (name, identity) if part) or "model",
        form="Ray Serve LLM",
        line=path.line if path is not None else line_of(config),
        image=cluster.image,
        engine=stated if settings_of(stated) is not None else "",
        version=version,
        added=(*added, *options),
        hardware=hardware_of(cluster, wanted, most, replicas, (("accelerator_type", kind),) if kind else ()),
        host=host_of(cluster),
        missing=(("model", f"{path}: a file that is not beside this one"),) if path is not None else (),
    )


def engine_of(app: Node, cluster: Cluster) -> tuple[str, Text | None]:
    """The engine and its version: a package of the runtime environment, a word of an image, of the import path."""
    listed = get(app, "runtime_env.pip")
    packages = items(listed) if not isinstance(listed, dict) else items(listed.get("packages"))
    for package in packages:
        if isinstance(package, Text) and (pinned := PINNED.fullmatch(package.strip())):
            return pinned[1], at(pinned[2], package.line, package.column)
        if isinstance(package, Text) and (loose := UNPINNED.fullmatch(package.strip())):
            return loose[1], None
    places = (text(get(app, "runtime_env.image_uri")), *cluster.images, text(get(app, "import_path")))
    for place in places:
        if place is not None and (match := ENGINE_WORDS.search(place.lower())):
            version = at(match[2], place.line, place.column) if match[2] else None
            return match[1], version
    return ("vllm", None) if str(get(app, "import_path")).startswith(BUILDER) else ("", None)


def by_name(engine: str, environment: Mapping[str, Text]) -> Iterator[Argument]:
    """Options that variables stand for by their names."""
    known = settings_of(engine)
    flags = known.flags if known is not None else {}
    for name, value in environment.items():
        flag = _variables().get(name, f"--{name.lower().replace('_', '-')}")
        read = flags.get(flag)
        if read is None or read.setting in ("secret", "config_file", "revision"):
            continue
        if read.read == "switch":
            if plain_value(at(value, 0, 0)) is True:
                yield Argument(flag, *value.within(0), f"env_vars.{name}")
        elif value.strip():
            yield argument_of(flag, value, f"env_vars.{name}")


@cache
def _variables() -> dict[str, str]:
    return validate_record(Variables, read_yaml(DATA / "ray.yaml"), "ray.yaml").variables


def _program(import_path: Text | None, outside: Mapping[str, Text]) -> Text | None:
    """The program an application is imported from, where a ConfigMap of the file holds it."""
    if import_path is None:
        return None
    file = f"{import_path.partition(':')[0].rpartition('.')[2]}.py"
    return next((content for key, content in outside.items() if key.rpartition("/")[2] == file), None)


def _ranks(arguments: Sequence[Argument]) -> int:
    """Devices the engine asks for: tp x pp x dp of its arguments, 1 without."""
    found = 1
    for size in ("tensor", "pipeline", "data"):
        pattern = re.compile(rf"--{size}[-_]parallel[-_]size=(\d{{1,6}})")
        said = [match for argument in arguments if (match := pattern.fullmatch(argument.text.strip()))]
        found *= max(1, int(said[-1][1])) if said else 1
    return found


def _devices(deployment: Node) -> int | None:
    """Devices a Ray deployment reserves: of its actor, or of its placement group."""
    return integer(get(deployment, "ray_actor_options.num_gpus")) or _bundles(
        get(deployment, "placement_group_bundles")
    )


def _bundles(bundles: Node) -> int:
    return sum(integer(get(bundle, "GPU")) or 0 for bundle in items_of(bundles))


def _replicas(deployments: Sequence[Node]) -> tuple[int, int]:
    """Most and usual replicas of an application: of its largest deployment."""
    most = usual = 1
    for one in deployments:
        least = integer(get(one, "autoscaling_config.min_replicas"))
        fixed = integer(get(one, "num_replicas"))
        said = next((count for count in (fixed, least) if count is not None), 1)
        usual = max(usual, said)
        most = max(most, said, integer(get(one, "autoscaling_config.max_replicas")) or 1)
    return most, usual
