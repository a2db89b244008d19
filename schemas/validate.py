"""Holds the documents beside this file to their own specifications, and every example to its schema.

Run by deploy/local/contracts. The tests in Swift hold the same documents to the program.
"""

import json
import pathlib
import sys

import yaml
from asyncapi3 import AsyncAPI3
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import validate as validate_openapi

FOLDER = pathlib.Path(__file__).resolve().parent
problems = []
checked = {}


def problem(place, text):
    problems.append(f"{place}: {text}")


def count(what, number=1):
    checked[what] = checked.get(what, 0) + number


class Loader(yaml.SafeLoader):
    """Leaves dates as the texts that they are, and refuses a key that is there twice."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader)


def resolve(value, document, depth=0):
    """The value with what its references name in their place."""
    if depth > 100:
        raise ValueError("references go in circles")
    if isinstance(value, list):
        return [resolve(element, document, depth + 1) for element in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if not isinstance(reference, str):
        return {key: resolve(member, document, depth + 1) for key, member in value.items()}
    path, _, pointer = reference.partition("#")
    if path:
        document = load(FOLDER / path)
    target = document
    for name in pointer.split("/")[1:]:
        target = target[name.replace("~1", "/").replace("~0", "~")]
    return resolve(target, document, depth + 1)


def validate(example, schema, place):
    count("examples")
    for error in Draft202012Validator(schema, format_checker=FormatChecker()).iter_errors(example):
        problem(place, f"{'/'.join(map(str, error.absolute_path))}: {error.message}"[:400])


def check_schema(path):
    schema = load(path)
    name = path.relative_to(FOLDER)
    try:
        Draft202012Validator.check_schema(schema)
    except Exception as error:
        problem(name, str(error)[:400])
        return
    count("schemas")
    for index, example in enumerate(schema.get("examples", [])):
        validate(example, schema, f"{name} examples/{index}")


def check_openapi(path):
    document = load(path)
    try:
        validate_openapi(document, base_uri=path.as_uri())
    except Exception as error:
        problem(path.name, f"{type(error).__name__}: {error}"[:400])
        return
    count("OpenAPI documents")
    for place, value, schema in media_examples(document, document, path.name):
        validate(value, resolve(schema, document), place)


def media_examples(value, document, place):
    """Every example of a body or a parameter, with its schema."""
    if isinstance(value, list):
        for index, element in enumerate(value):
            yield from media_examples(element, document, f"{place}/{index}")
    elif isinstance(value, dict):
        schema = value.get("schema")
        if isinstance(schema, dict):
            if "example" in value:
                yield f"{place} example", value["example"], schema
            examples = value.get("examples")
            for name, example in (examples if isinstance(examples, dict) else {}).items():
                example = resolve(example, document)
                if isinstance(example, dict) and "value" in example:
                    yield f"{place} {name}", example["value"], schema
        for key, member in value.items():
            # Within a schema the words mean something else.
            if key not in ("schema", "schemas", "examples"):
                yield from media_examples(member, document, f"{place}/{key}")


def check_asyncapi(path):
    document = load(path)
    try:
        AsyncAPI3.model_validate(document)
    except Exception as error:
        problem(path.name, str(error)[:800])
        return
    count("AsyncAPI documents")
    for name, message in document["components"]["messages"].items():
        message = resolve(message, document)
        for index, example in enumerate(message["examples"]):
            place = f"{path.name} {name} examples/{index}"
            validate(example["headers"], message["headers"], f"{place} headers")
            validate(example.get("payload"), message["payload"], f"{place} payload")


for path in sorted([*FOLDER.glob("events/*.json"), *FOLDER.glob("provider/*.schema.json"), *FOLDER.glob("load-*.json")]):
    check_schema(path)
for path in sorted(FOLDER.glob("*openapi.yaml")):
    check_openapi(path)
check_asyncapi(FOLDER / "asyncapi.yaml")
if problems:
    sys.exit("\n".join(problems))
print("contracts: valid: " + ", ".join(f"{number} {what}" for what, number in checked.items()))
