"""From files to deployments: what is read, by which reader, and what could not be read."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.gate import nim
from infopt.gate.addresses import is_place, model_name
from infopt.gate.arguments import of_variables
from infopt.gate.config_files import parse_with_file
from infopt.gate.deployment import DECISIVE, Deployment, Problem, Setting, Unknown
from infopt.gate.engines import MOST_SCRIPT_CHARACTERS, Call, call, version_of_image
from infopt.gate.finding import Finding
from infopt.gate.found import Found
from infopt.gate.kinds import found_in_text, is_text, is_tree, wanted
from infopt.gate.mounted import with_script
from infopt.gate.nodes import Node, Text, documents, get, mapping, text
from infopt.gate.outside import Outside, Tree, unlisted
from infopt.gate.policy import Policy
from infopt.gate.programs import notes
from infopt.gate.readers import (
    app_template,
    bentoml,
    compose,
    dstack,
    dynamo,
    engine_options,
    kaito,
    kserve,
    kthena,
    kubeai,
    kubernetes,
    llm_inference,
    modelservice,
    ome,
    own_chart,
    production_stack,
    ray,
    ray_serve,
    releases,
    role_groups,
    scenario,
    skypilot,
    storm,
    trtllm_options,
    vllm_chart,
    vllm_recipe,
)
from infopt.gate.readers import nim as nim_forms
from infopt.gate.secrets import Secrets, without_secrets
from infopt.gate.templates import PRESET, template_error, unparsed_template

MOST_BYTES = 10_000_000
MOST_CONTAINERS, MOST_ARGUMENTS = 1_000, 10_000
READERS = (
    kubernetes,
    production_stack,
    modelservice,
    scenario,
    kubeai,
    nim_forms,
    releases,
    app_template,
    vllm_chart,
    kserve,
    llm_inference,
    storm,
    role_groups,
    kthena,
    ray,
    ray_serve,
    dynamo,
    ome,
    kaito,
    trtllm_options,
    compose,
    skypilot,
    dstack,
    bentoml,
    vllm_recipe,
    engine_options,
    own_chart,
)


@dataclass(frozen=True, slots=True)
class Read:
    """What a file held: deployments, or why it could not be read; in `text` its secrets are struck out."""

    file: str
    text: str
    deployments: tuple[Deployment, ...]
    error: str = ""
    secrets: Secrets = Secrets()
    notes: tuple[Finding, ...] = ()


def files_of(paths: Sequence[str]) -> Iterator[str]:
    """The files to read: those named, and in folders every file with a known ending, by name; no link is followed."""
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            yield path
            continue
        closed: list[OSError] = []
        for folder, folders, names in os.walk(path, onerror=closed.append, followlinks=False):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
            for name in sorted(names):
                if wanted(name):
                    yield os.path.join(folder, name)
        yield from (str(error.filename) for error in closed)


def text_of(path: str, standard_input: str | None = None) -> str:
    """The text of a file; InfoptError for what is too large, binary or unreadable."""
    if path == "-":
        return _decoded((standard_input or "").encode("utf-8", "surrogateescape"), "standard input")
    try:
        status = os.stat(path)
        if os.path.isdir(path):
            os.scandir(path).close()
        if not os.path.isfile(path):
            raise InfoptError(f"{path}: is no file")
        if status.st_size > MOST_BYTES:
            raise InfoptError(f"{path}: {status.st_size:,} bytes is more than the {MOST_BYTES:,} that are read")
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "unreadable"
        raise InfoptError(f"{path}: cannot be read: {why.lower()}") from error
    return _decoded(content, path)


def _decoded(content: bytes, path: str) -> str:
    if len(content) > MOST_BYTES:
        raise InfoptError(f"{path}: more than the {MOST_BYTES:,} bytes that are read")
    if b"\0" in content:
        raise InfoptError(f"{path}: is binary, not text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InfoptError(f"{path}: is not UTF-8 text") from error


def read_file(
    path: str,
    standard_input: str | None = None,
    overrides: "Overrides | None" = None,
    policy: Policy | None = None,
    tree: Tree | None = None,
) -> Read:
    """The deployments of a file; an unreadable one is an error of its own and stops nothing else.

    tree  the files that are checked together, for objects that belong to others
    """
    try:
        content = text_of(path, standard_input)
    except InfoptError as error:
        return Read(path, "", (), str(error))
    try:
        nodes, refused, outside, found = _content(path, content, tree)
    except InfoptError as error:
        shown, secrets = without_secrets(content)
        why = unparsed_template(content, path) or str(error)
        why = why if why.startswith((path, "standard input")) else f"{path}: {why}"
        return Read(path, shown, (), secrets.said(why), secrets)
    overrides, policy = overrides or Overrides(), policy or Policy()
    every = (deployment(path, one, given(policy, overrides, path, one.name), outside) for one in found)
    deployments = tuple(one for one in every if one is not None)
    shown, secrets = without_secrets(content, nodes)
    secrets = secrets.and_those_of(deployments)
    why = secrets.said(next(iter(refused.values()), ""))
    said = tuple(secrets.of_finding(note) for note in notes(path, nodes, bool(deployments)))
    return Read(path, shown, deployments, why, secrets, said)


def _content(path: str, content: str, tree: Tree | None) -> tuple[list[Node], dict[int, str], Outside, list[Found]]:
    """Documents of a file, which of them are templates, what is around them, and the servers found."""
    if is_text(path):
        if len(content) > MOST_SCRIPT_CHARACTERS:
            raise InfoptError(f"{path}: more than the {MOST_SCRIPT_CHARACTERS:,} characters of a script that are read")
        return [], {}, Outside({}, (), tree, path), found_in_text(path, content)
    try:
        nodes = [one for node in documents(content, path) for one in unlisted(node)]
    except InfoptError:
        found = [] if is_tree(path) else found_in_text(path, content)
        if is_tree(path) or (path == "-" and not found):
            raise
        return [], {}, Outside({}, (), tree, path), found
    refused = {id(node): why for node in nodes if _serves(node) and (why := template_error(node, path))}
    outside = Outside(config_maps(nodes), nodes, tree, path)
    every = (one for node in nodes if id(node) not in refused for one in found_in(node, outside))
    found = list(_bounded(path, every))
    if not found and not is_tree(path) and not any(_serves(node) for node in nodes):
        found = found_in_text(path, content)
    return nodes, refused, outside, found


def _bounded(path: str, found: Iterable[Found]) -> Iterator[Found]:
    """What was found, as far as a file of deployments goes."""
    for count, one in enumerate(found):
        if count >= MOST_CONTAINERS:
            raise InfoptError(f"{path}: more than {MOST_CONTAINERS:,} containers; split the file")
        if len(one.arguments) > MOST_ARGUMENTS:
            raise InfoptError(f"{path}:{one.line}: more than {MOST_ARGUMENTS:,} arguments")
        yield one


@dataclass(frozen=True, slots=True)
class Overrides:
    """Facts given on the command line."""

    model: str | None = None
    engine_version: str | None = None
    gpu: str | None = None
    calibration: str | None = None


# A fact given beside the file: its value, and where it is said. It wins over what the file states.
Given = Mapping[str, tuple[str, str]]


def given(policy: Policy, overrides: Overrides, path: str, name: str) -> Given:
    """Facts of one deployment that are said beside its file: `deployments:` of the policy, over it the command line."""
    facts = policy.said(path, name)
    names = ("model", "engine_version", "gpu", "calibration")
    options = ((name, f"--{name.replace('_', '-')}") for name in names)
    return facts | {fact: (value, option) for fact, option in options if (value := getattr(overrides, fact))}


def _serves(node: Node) -> bool:
    """Whether a document is one that holds servers; templates in any other are somebody else's."""
    return get(node, "kind") == PRESET or any(reader.recognises(node) for reader in READERS)


def found_in(node: Node, outside: Outside) -> Iterator[Found]:
    """What the first reader that recognises a document finds in it."""
    for reader in READERS:
        if reader.recognises(node):
            yield from reader.read(node, outside)
            return


def config_maps(nodes: Sequence[Node]) -> dict[str, Text]:
    """Values of ConfigMaps by `name/key`."""
    found: dict[str, Text] = {}
    for node in nodes:
        if get(node, "kind") == "ConfigMap":
            name = text(get(node, "metadata.name"))
            for key, value in mapping(get(node, "data")).items():
                if isinstance(value, Text):
                    found[f"{name}/{key}"] = value
    return found


def deployment(path: str, found: Found, facts: Given, outside: Mapping[str, Text]) -> Deployment | None:
    """A container as its engine understands it; None where no engine serves in it."""
    found = with_script(found, outside)
    started = call(found)
    if "engine" in facts and (started is not None or found.hardware.count is not None):
        # Of a container that nothing is known of, only one with devices is taken to serve.
        found = replace(found, engine=facts["engine"][0])
        started = Call(found.engine, "", found.arguments) if started is None else replace(started, engine=found.engine)
    if started is None:
        return None
    if started.assumed:
        found = replace(found, assumed=(*found.assumed, started.assumed))
    if started.engine == "nim":
        found = nim.completed(found)
    version, said = _version(found, facts)
    arguments = [*of_variables(started.engine, found.environment), *found.added, *started.arguments]
    parsed, elsewhere = parse_with_file(started.engine, version, found, arguments, outside, path)
    model = _model(found, parsed.settings, facts)
    unknown = [Unknown(fact, where) for fact, where in found.missing if _matters(fact, parsed.settings, model)]
    unknown += [*elsewhere, *_unsaid(parsed.problems, parsed.settings)]
    if version is None and all(one.fact != "engine version" for one in unknown):
        unknown.append(Unknown("engine version", "an image tag with a version, or --engine-version"))
    return Deployment(
        file=path,
        found=found,
        engine=started.engine,
        version=version,
        version_said=said,
        model=model,
        settings=parsed.settings,
        problems=parsed.problems,
        unknown=tuple(unknown),
        given=facts,
    )


def _version(found: Found, facts: Given) -> tuple[str | None, str]:
    if "engine_version" in facts:
        return facts["engine_version"]
    if found.version is not None:
        return str(found.version), "the file"
    of_image = version_of_image(found.image) if found.image is not None else None
    return of_image, "image tag" if of_image is not None else ""


def _model(found: Found, settings: Mapping[str, Setting], facts: Given) -> str | None:
    """What is served: what is given, the command line, the form's own key."""
    if "model" in facts:
        return facts["model"][0]
    of_form = model_name(found.model) if found.model is not None else None
    setting = settings.get("model") or settings.get("model_file")
    if setting is not None:
        of_line = model_name(str(setting.value))
        # A folder on the command line holds what the form's own key names.
        return of_form if of_form is not None and is_place(of_line) and not is_place(of_form) else of_line
    return of_form


def _unsaid(problems: Sequence[Problem], settings: Mapping[str, Setting]) -> Iterator[Unknown]:
    """Settings that decide what fits, whose value a variable or a template would say."""
    for problem in problems:
        if problem.kind == "unresolved" and problem.setting in DECISIVE and problem.setting not in settings:
            yield Unknown(DECISIVE[problem.setting], f"{problem.message}: its value")


def _matters(fact: str, settings: Mapping[str, Setting], model: str | None) -> bool:
    """Secrets and pod fields are elsewhere in every deployment: they are no unknown; nor is a model that is known."""
    return not fact.startswith("variable ") and fact not in settings and (fact != "model" or model is None)
