"""A real Trainer on the CPU, with a BERT of a few thousand weights: its record is whole, and can calibrate a law."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from wattlaw.measure import trainer_callback
from wattlaw.run import read_records

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate", reason="the Trainer needs accelerate")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SEQ_LEN = 24
# What transformers and accelerate say about one another's and torch's old names is not ours to mend.
pytestmark = [
    pytest.mark.filterwarnings("default::DeprecationWarning"),
    pytest.mark.filterwarnings("default::FutureWarning"),
    pytest.mark.filterwarnings("default::UserWarning"),
]


class Sentences(torch.utils.data.Dataset):
    """Random tokens."""

    def __init__(self, count=64):
        self.words = torch.randint(100, (count, SEQ_LEN), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": index % 2}


def bert():
    """A classifier."""
    config = transformers.BertConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=100
    )
    return transformers.BertForSequenceClassification(config)


def train(folder, callback, model=None, **options):
    """Train for four steps and return the trainer."""
    arguments = {
        "output_dir": str(folder / "out"),
        "max_steps": 4,
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
    }
    trainer = transformers.Trainer(
        model=bert() if model is None else model,
        args=transformers.TrainingArguments(**(arguments | options)),
        train_dataset=Sentences(),
        eval_dataset=Sentences(8),
        callbacks=[callback],
    )
    trainer.train()
    return trainer


def test_a_training_writes_one_whole_record(tmp_path):
    """Model, recipe, layout and device are as trained; the time is of the training; the law's word stands beside."""
    span = SimpleNamespace(low=1.0, mid=2.0, high=3.0)
    predicted = SimpleNamespace(energy_j=span, duration_s=span, boundary="node")
    callback = trainer_callback(tmp_path / "r.jsonl", declared_power_w=65.0, predict=lambda _: predicted)
    train(
        tmp_path,
        callback,
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        include_num_input_tokens_seen="all",
    )
    (record,) = read_records(tmp_path / "r.jsonl")
    assert record == callback.record
    assert (record.status, record.missing, record.assumed) == ("ok", (), ("hardware.gpu",))
    architecture, recipe = record.spec.architecture, record.spec.recipe
    stack = architecture.stacks[0]
    assert (architecture.family, architecture.head, architecture.num_labels) == ("bert", "classification", 2)
    assert (stack.num_layers, architecture.hidden_size, stack.num_heads, stack.ffn_size) == (2, 32, 2, 64)
    assert (recipe.batch_size, recipe.seq_len, recipe.padded_len, recipe.grad_accumulation) == (4, SEQ_LEN, None, 2)
    assert (recipe.precision, recipe.optimizer, recipe.checkpointing) == ("fp32", "adamw", "none")
    assert (recipe.attention_kernel, recipe.steps) == ("fused", 4)
    # Twice 8 sentences evaluated, 4 steps of 2 x 4 trained on.
    assert recipe.evaluation_fraction == 16 / 32
    assert record.spec.layout.strategy == "single"
    assert record.spec.accelerator.name == "generic-cpu"
    assert record.observed["micro_steps"] == 8
    assert record.observed["tokens_seen"] == 32 * SEQ_LEN
    assert record.observed["predicted_energy_j"] == 2.0
    assert record.energy("node").method == "declared"
    assert record.duration_s > 0


def test_what_the_arguments_ask_for_is_in_the_recipe(tmp_path):
    """Another optimizer, recomputation and eager attention are read off the objects that do them."""
    model = bert()
    model.set_attn_implementation("eager")
    callback = trainer_callback(tmp_path / "r.jsonl")
    train(tmp_path, callback, model, optim="sgd", gradient_checkpointing=True, max_steps=1)
    recipe = callback.record.spec.recipe
    assert (recipe.optimizer, recipe.checkpointing, recipe.attention_kernel) == ("sgd", "full", "eager")


@pytest.mark.parametrize(
    ("modules", "targets"),
    [(["query", "value"], "query-value"), (["query", "key", "value", "attention.output.dense"], "attention")],
)
def test_adapters_of_peft_are_in_the_recipe(tmp_path, modules, targets):
    """A frozen base with low-rank adapters is a whole spec: their rank, and which projections have one."""
    peft = pytest.importorskip("peft", reason="PEFT is not installed")
    lora = peft.LoraConfig(task_type="SEQ_CLS", r=3, target_modules=modules)
    model = peft.get_peft_model(bert(), lora)
    callback = trainer_callback(tmp_path / "r.jsonl")
    train(tmp_path, callback, model, max_steps=1)
    spec = callback.record.require_spec()
    assert (spec.recipe.adapter_rank, spec.recipe.adapter_targets) == (3, targets)
    assert spec.architecture.head == "classification"


def test_frozen_weights_are_no_spec(tmp_path):
    """Fine-tuning the head alone costs less than any recipe says: the record names what is missing."""
    model = bert()
    model.bert.requires_grad_(requires_grad=False)
    callback = trainer_callback(tmp_path / "r.jsonl")
    train(tmp_path, callback, model, max_steps=1)
    record = callback.record
    assert (record.status, record.spec) == ("ok", None)
    assert record.missing[0].startswith("frozen weights")
    assert record.stated["recipe"]["batch_size"] == 4


def test_a_training_that_is_resumed_counts_its_own_steps(tmp_path):
    """Four steps were made before: the record is of the two that this process made."""
    train(tmp_path, trainer_callback(tmp_path / "first.jsonl"), save_strategy="steps", save_steps=2, max_steps=2)
    callback = trainer_callback(tmp_path / "second.jsonl")
    trainer = train(tmp_path, callback, max_steps=1)
    trainer.args.max_steps = 4
    trainer.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    assert [record.spec.recipe.steps for record in read_records(tmp_path / "second.jsonl")] == [1, 2]


def test_an_exception_in_the_training_goes_on_and_is_recorded(tmp_path):
    """The user's error is the user's to see; the next training of the same callback closes the record of this one."""

    class Flawed(Sentences):
        def __getitem__(self, index):
            raise KeyError("broken file")

    callback = trainer_callback(tmp_path / "r.jsonl")
    trainer = train(tmp_path, callback, max_steps=1)
    trainer.train_dataset = Flawed()
    with pytest.raises(KeyError, match="broken file"):
        trainer.train()
    trainer.train_dataset = Sentences()
    trainer.train()
    assert [record.status for record in read_records(tmp_path / "r.jsonl")] == ["ok", "failed", "ok"]


def test_a_store_that_cannot_be_written_does_not_stop_the_training(tmp_path, caplog):
    """One warning, and the training is what it would have been."""
    (tmp_path / "file").write_text("")
    trainer = train(tmp_path, trainer_callback(tmp_path / "file" / "r.jsonl"))
    assert trainer.state.global_step == 4
    assert caplog.text.count("this training is not recorded") == 1


def test_records_of_real_trainings_calibrate_a_law(tmp_path):
    """Trainings of several sizes, as recorded, are enough for the law's columns, and their times are its targets."""
    from wattlaw.features.records import record_columns, usable

    for batch_size in (1, 4, 8):
        train(tmp_path, trainer_callback(tmp_path / "r.jsonl"), per_device_train_batch_size=batch_size, max_steps=2)
    records = read_records(tmp_path / "r.jsonl")
    kept, left_out = usable(records)
    assert (len(kept), left_out) == (3, 0)
    table = record_columns(kept)
    assert list(table.numbers("duration_s")) == [record.duration_s for record in records]


def test_the_example_runs_as_written_and_both_records_are_there(tmp_path):
    """``wattlaw run -- python examples/train.py``: the program's record, and within it the training's own."""
    command = "import sys; from wattlaw.cli.run import command as c; sys.exit(c.main(standalone_mode=False))"
    done = subprocess.run(
        [sys.executable, "-c", command, "--", sys.executable, str(EXAMPLES / "train.py"), "--steps", "3",
         "--record", "training.jsonl"],
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "after 3 steps" in done.stdout
    (program,) = read_records(tmp_path / "runs" / "records.jsonl")
    (training,) = read_records(tmp_path / "training.jsonl")
    assert program.status == training.status == "ok"
    assert training.environment["inside"] == program.record_id
    assert training.spec.recipe.steps == 3
    assert training.duration_s < program.duration_s
