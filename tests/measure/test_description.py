"""What a framework tells becomes a whole spec, or its parts and the names of what is missing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from wattlaw.measure.description import Adapters, BatchShapes, Training, described
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunRecord

CONFIG = {
    "model_type": "bert",
    "architectures": ["BertForSequenceClassification"],
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 2,
    "intermediate_size": 256,
    "vocab_size": 200,
}
RECIPE = {"batch_size": 8, "seq_len": 32, "precision": "fp32", "optimizer": "adamw", "steps": 20}
DRAFT = RunRecord(record_id="x", missing=("model", "recipe", "hardware"), notes="before")


def training(**changes):
    """A training that is known in full, with changes."""
    return Training(**{"config": CONFIG, "recipe": RECIPE, "layout": Layout(), "device": "generic-cpu", **changes})


def test_what_is_known_in_full_is_a_spec():
    """Sizes from the configuration, the recipe, layout and device: nothing is missing."""
    record = described(DRAFT, training(assumed=("hardware.gpu",)))
    assert record.missing == ()
    assert record.assumed == ("hardware.gpu",)
    assert record.notes == "before"
    spec = record.require_spec()
    assert spec.architecture.stacks[0].num_layers == 2
    assert spec.architecture.head == "classification"
    assert spec.recipe.steps == 20
    assert spec.power_limit_w is None


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"config": None}, ("model",)),
        ({"config": {**CONFIG, "model_type": "mamba"}}, ("model",)),
        ({"recipe": {**RECIPE, "steps": None}}, ("recipe.steps",)),
        ({"recipe": {"batch_size": 8, "precision": "fp32", "steps": 1}}, ("recipe.seq_len", "recipe.optimizer")),
        ({"recipe": {**RECIPE, "optimizer": "lion"}}, ("recipe",)),
        ({"device": None}, ("hardware.gpu",)),
        ({"device": "NVIDIA Z9000"}, ("hardware.gpu",)),
        ({"layout": None}, ("layout",)),
        ({"obstacles": ("frozen weights (1 % are trained)",)}, ("frozen weights (1 % are trained)",)),
        ({"recipe": {**RECIPE, "precision": "bf16"}}, ("recipe.precision",)),
    ],
)
def test_what_is_unknown_is_named_and_the_rest_kept(changes, missing):
    """No spec is made of guesses; the parts that are known stay in ``stated``."""
    record = described(DRAFT, training(**changes))
    assert record.spec is None
    assert record.missing == missing
    kept = {"model", "recipe", "hardware", "layout"} - {name.split(".")[0] for name in missing}
    assert kept - {"recipe"} <= set(record.stated)


def test_a_power_limit_counts_only_below_the_devices_own():
    """The driver tells the default limit as well; that changes nothing."""
    gpu = {"device": "NVIDIA A100-SXM4-40GB"}
    assert described(DRAFT, training(**gpu, power_limit_w=250.0)).spec.power_limit_w == 250.0
    assert described(DRAFT, training(**gpu, power_limit_w=400.0)).spec.power_limit_w is None


@pytest.mark.parametrize(
    ("trained_parameters", "targets"),
    [
        # Two blocks; rank 4 between 64 and 64 is 512 numbers, between 64 and 256 is 1,280; the classifier has 130.
        (2 * 2 * 512 + 130, "query-value"),
        (2 * 4 * 512 + 130, "attention"),
        (2 * (4 * 512 + 2 * 1280) + 130, "all-linear"),
        (2 * 3 * 512 + 130, None),
    ],
)
def test_adapters_are_told_by_how_much_they_train(trained_parameters, targets):
    """The number of trained weights says which projections have one; one that fits no choice is no spec."""
    adapters = Adapters(rank=4, trained_parameters=trained_parameters, trained_share=0.25)
    record = described(DRAFT, training(adapters=adapters))
    if targets is None:
        assert record.missing == ("frozen weights (25 % are trained)",)
    else:
        assert (record.spec.recipe.adapter_rank, record.spec.recipe.adapter_targets) == (4, targets)


class TestBatchShapes:
    """Counting what is computed, from shapes."""

    def test_equal_batches_need_no_mean_length(self):
        """Every sequence is as long as the longest: no padding to tell."""
        shapes = BatchShapes()
        for _ in range(3):
            shapes.saw((8, 32))
        assert shapes.recipe() == {"batch_size": 8, "seq_len": 32, "evaluation_fraction": 0.0}

    def test_padded_batches_tell_their_mean(self):
        """8 sequences of 32 and 4 of 20 (the last batch is not full): (256 + 80) / 12 = 28 tokens each."""
        shapes = BatchShapes()
        shapes.saw((8, 32))
        shapes.saw((4, 20))
        assert shapes.recipe() == {"batch_size": 8, "seq_len": 32, "padded_len": 28.0, "evaluation_fraction": 0.0}

    def test_evaluation_is_a_share_of_the_tokens_trained_on(self):
        """64 tokens trained on, 32 evaluated."""
        shapes = BatchShapes()
        shapes.saw((2, 32))
        shapes.saw((1, 32), training=False)
        assert shapes.recipe()["evaluation_fraction"] == 0.5

    def test_an_encoder_decoder_has_two_lengths(self):
        """Labels are the decoder's sequence there, and a class or the same sequence elsewhere."""
        inputs = {"input_ids": SimpleNamespace(shape=(2, 32)), "labels": SimpleNamespace(shape=(2, 9))}
        both, one = BatchShapes(), BatchShapes()
        both.saw_inputs(inputs, encoder_decoder=True, training=True)
        one.saw_inputs(inputs, encoder_decoder=False, training=True)
        assert both.recipe()["target_len"] == 9
        assert "target_len" not in one.recipe()

    def test_what_is_no_text_is_passed_over(self):
        """A batch without tokens tells nothing, and breaks nothing."""
        shapes = BatchShapes()
        shapes.saw_inputs({"labels": SimpleNamespace(shape=(2,))}, encoder_decoder=False, training=True)
        shapes.saw_inputs({"input_ids": None}, encoder_decoder=False, training=True)
        assert shapes.recipe() == {}
