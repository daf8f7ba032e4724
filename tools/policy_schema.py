"""Write the JSON Schema of `infopt.yaml`, anew after every new rule: python tools/policy_schema.py"""

import json

from infopt.gate.policy_schema import policy_schema
from infopt.reports.schemas import FOLDER

if __name__ == "__main__":
    text = json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n"
    (FOLDER / "policy.json").write_text(text, encoding="utf-8")
