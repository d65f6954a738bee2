"""`gateway schema`: the JSON Schema of a catalog file, for editors, generated from the forms."""

from gateway.catalog.schema import CatalogForm
from gateway.core.strictjson import Json


def catalog_schema() -> dict[str, Json]:
    """JSON Schema 2020-12 of a catalog file."""
    schema = CatalogForm.model_json_schema(by_alias=True, mode="validation")
    schema["properties"].pop("$schema", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Action Gateway catalog"}
