"""Lightning's callback: on a stand-in for its trainer, and on the real one where Lightning is installed."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from wattlaw.errors import MissingExtraError
from wattlaw.measure import lightning, lightning_callback
from wattlaw.run import read_records

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def fresh_class():
    """The class is made once per process; here it is made of another parent each time."""
    lightning._callback_class.cache_clear()  # noqa: SLF001 - the cache is what is undone
    yield
    lightning._callback_class.cache_clear()  # noqa: SLF001


@pytest.fixture
def stand_in(monkeypatch):
    """A module that has what the callback needs of Lightning: a parent."""
    module = ModuleType("lightning.pytorch")
    module.Callback = type("Callback", (), {})
    monkeypatch.setitem(sys.modules, "lightning", ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", module)


class SingleDeviceStrategy:
    """Named as Lightning's."""

    root_device = torch.device("cpu")


class DeepSpeedStrategy(SingleDeviceStrategy):
    """One whose sharding is not read."""


def module():
    """A Lightning module around a tiny GPT-2; Lightning's is a torch module as well."""
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=100, n_positions=64)
    outer = torch.nn.Module()
    outer.model = transformers.GPT2LMHeadModel(config)
    return outer


def trainer(model, **changes):
    """What the callback reads of a trainer."""
    values = {
        "global_step": 0,
        "precision": "32-true",
        "accumulate_grad_batches": 2,
        "optimizers": [torch.optim.AdamW(model.parameters())],
        "strategy": SingleDeviceStrategy(),
        "world_size": 1,
        "num_nodes": 1,
        "current_epoch": 1,
        "sanity_checking": False,
    }
    return SimpleNamespace(**(values | changes))


def batch(size=4, length=16):
    """Tokens."""
    return {"input_ids": torch.zeros(size, length, dtype=torch.long)}


def fit(callback, one, model, *, fails=False):
    """Send the events of a training of two optimizer steps, in Lightning's order."""
    callback.on_train_start(one, model)
    for index in range(4):
        callback.on_train_batch_start(one, model, batch(), index)
    one.sanity_checking = True
    callback.on_validation_batch_start(one, model, batch(), 0)
    one.sanity_checking = False
    callback.on_validation_batch_start(one, model, batch(), 0)
    one.global_step = 2
    if fails:
        callback.on_exception(one, model, RuntimeError("out of memory\nmore"))
    else:
        callback.on_train_end(one, model)


@pytest.mark.usefixtures("stand_in")
class TestEvents:
    """Lightning's events and objects, acted out."""

    def test_a_training_is_a_whole_record(self, tmp_path):
        """The model among the module's parts, batches as seen, the evaluation without the sanity check."""
        model = module()
        callback = lightning_callback(tmp_path / "r.jsonl")
        fit(callback, trainer(model), model)
        (record,) = read_records(tmp_path / "r.jsonl")
        assert record == callback.record
        spec = record.require_spec()
        assert (spec.architecture.family, spec.architecture.head) == ("gpt2", "lm")
        assert (spec.recipe.batch_size, spec.recipe.seq_len, spec.recipe.grad_accumulation) == (4, 16, 2)
        assert (spec.recipe.steps, spec.recipe.precision, spec.recipe.optimizer) == (2, "fp32", "adamw")
        assert spec.recipe.evaluation_fraction == 1 / 4
        assert record.source == "lightning.Trainer"

    def test_an_exception_is_recorded(self, tmp_path):
        """Lightning tells of exceptions: the record is failed, with the first line of the reason."""
        model = module()
        fit(lightning_callback(tmp_path / "r.jsonl"), trainer(model), model, fails=True)
        (record,) = read_records(tmp_path / "r.jsonl")
        assert (record.status, record.notes) == ("failed", "RuntimeError: out of memory")

    @pytest.mark.parametrize(
        ("changes", "missing"),
        [
            ({"strategy": DeepSpeedStrategy()}, ["layout (DeepSpeedStrategy, which no law here knows)", "layout"]),
            ({"precision": "64-true"}, ["recipe.precision"]),
            ({"optimizers": []}, ["recipe.optimizer"]),
        ],
    )
    def test_what_is_not_known_is_named(self, tmp_path, changes, missing):
        """No guess: the record names what the trainer did not tell."""
        model = module()
        callback = lightning_callback(tmp_path / "r.jsonl")
        fit(callback, trainer(model, **changes), model)
        assert callback.record.spec is None
        assert list(callback.record.missing) == missing

    def test_an_unknown_trainer_breaks_nothing(self, tmp_path, caplog):
        """A Lightning of another version, without these fields: one warning."""
        callback = lightning_callback(tmp_path / "r.jsonl")
        callback.recorder.begin(lambda: lightning.training_of(SimpleNamespace(), module(), callback.recorder, steps=0))
        callback.recorder.end()
        assert caplog.text.count("this training is not recorded") == 1


def test_without_lightning_the_error_says_what_to_install(monkeypatch):
    """Importing wattlaw needs no Lightning; making the callback does."""
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match="pip install lightning"):
        lightning_callback()


@pytest.mark.filterwarnings("default")
def test_the_real_trainer_writes_a_whole_record(tmp_path):
    """Lightning itself: ten batches, accumulation of two, a validation, on the CPU."""
    pl = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = module().model

        def training_step(self, words):
            return self.model(words, labels=words).loss

        def validation_step(self, words):
            self.model(words)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)

    words = torch.randint(100, (40, 16), generator=torch.Generator().manual_seed(0))
    callback = lightning_callback(tmp_path / "r.jsonl", declared_power_w=65.0)
    pl.Trainer(
        max_epochs=1,
        accumulate_grad_batches=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
    ).fit(
        Module(),
        torch.utils.data.DataLoader(words, batch_size=4),
        torch.utils.data.DataLoader(words[:8], batch_size=4),
    )
    (record,) = read_records(tmp_path / "r.jsonl")
    recipe = record.require_spec().recipe
    assert (recipe.batch_size, recipe.seq_len, recipe.grad_accumulation, recipe.steps) == (4, 16, 2, 5)
    assert (recipe.optimizer, recipe.precision, recipe.evaluation_fraction) == ("momentum", "fp32", 8 / 40)
    assert record.energy("node").method == "declared"
