"""Family records: every one loads, names its source, and asks only for rules that exist."""

import pytest

from infopt.errors import InfoptError
from infopt.profiles.families import Family, changed, family, known_families
from infopt.profiles.hf_layers import FEED_FORWARD_RULES, LAYER_RULES
from infopt.profiles.hf_recurrent import RECURRENT

REQUIRED = (
    "llama mistral mixtral ministral3 mistral3 mistral4 qwen qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next qwen3_5 "
    "qwen3_5_text qwen3_5_moe qwen3_5_moe_text qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe qwen3_omni_moe gemma "
    "gemma2 gemma3 gemma3_text gemma3n gemma4 gemma4_text gpt_oss gpt2 opt bloom gptj gpt_neox gpt_neo mpt falcon "
    "falcon_h1 falcon_mamba starcoder2 gpt_bigcode phi phi3 phimoe phi4mm stablelm olmo olmo2 olmo3 olmoe cohere "
    "cohere2 cohere2_moe granite granitemoe granitemoehybrid deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 "
    "kimi_k2 kimi_k25 kimi_vl kimi_linear minimax minimax_m1 minimax_m2 minimax_m3 glm glm4 chatglm glm4_moe "
    "glm4_moe_lite glm_moe_dsa ernie4_5 ernie4_5_moe hunyuan_v1_dense hunyuan_v1_moe internlm2 internlm3 baichuan "
    "exaone exaone4 seed_oss smollm3 nemotron nemotron_h nemotron-nas jamba bamba mamba mamba2 dbrx grok-1 llama4 "
    "llama4_text longcat_flash mimo mimo_v2_flash step3_text step3p5 step3p7 bailing_moe dots1 arcee apertus "
    "solar_open lfm2 lfm2_moe "
)


def every_field(record: Family) -> list[Family]:
    """The record as it stands, and under each of its own changes."""
    forms = [record, *(changed(record, variant.then) for variant in record.variants)]
    return [*forms, *(changed(record, change) for change in record.kinds.values())]


def test_every_popular_family_has_a_record():
    assert set(REQUIRED.split()) <= set(known_families())


@pytest.mark.parametrize("name", known_families())
def test_record_loads_and_names_rules_that_exist(name):
    record = family(name, {}, "config.json")
    assert record.source
    for form in every_field(record):
        assert set(form.layer_kinds) <= set(LAYER_RULES)
        assert set(form.feed_forwards) <= set(FEED_FORWARD_RULES)
        assert {form.recurrent, form.beside} - {None} <= set(RECURRENT)


def test_a_variant_applies_only_where_the_config_says_so():
    assert family("granitemoehybrid", {"num_local_experts": 0}, "c").feed_forwards == ["dense"]
    assert family("granitemoehybrid", {"num_local_experts": 62}, "c").feed_forwards == ["moe"]
    assert family("falcon", {"new_decoder_architecture": True}, "c").fixed == {}
    assert family("falcon", {}, "c").fixed == {"kv_heads": 1}


def test_an_unknown_type_lists_the_nearest():
    with pytest.raises(InfoptError, match=r"config\.json: unknown model_type 'qwen2_mo'; nearest: qwen2_moe"):
        family("qwen2_mo", {}, "config.json")
