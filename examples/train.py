"""A training of a few seconds: a tiny BERT learns to tell sentences of one vocabulary from those of another.

    wattlaw run -- python examples/train.py
    torchrun --nproc-per-node 2 examples/train.py --record runs/records.jsonl

Nothing is downloaded. With --record the Trainer's callback writes a record of the training alone, with everything that
`wattlaw fit` needs; `wattlaw run` measures the whole program and knows time and energy only.
"""

from __future__ import annotations

import argparse
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

from wattlaw.measure import trainer_callback

SEQ_LEN = 32
VOCAB_SIZE = 200


class TwoVocabularies(torch.utils.data.Dataset):
    """Random sentences; those labelled 1 use the upper half of the vocabulary."""

    def __init__(self, num_sentences: int) -> None:
        draw = torch.Generator().manual_seed(0)
        self.labels = torch.arange(num_sentences) % 2
        words = torch.randint(VOCAB_SIZE // 2, (num_sentences, SEQ_LEN), generator=draw)
        self.words = words + self.labels[:, None] * (VOCAB_SIZE // 2)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.labels[index]}


def main() -> None:
    """Train, and print the loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--record", help="Store to which the callback adds the training's record.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    set_seed(0)
    config = BertConfig(
        num_hidden_layers=2, hidden_size=64, num_attention_heads=2, intermediate_size=256, vocab_size=VOCAB_SIZE
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=TrainingArguments(
                output_dir=folder,
                max_steps=options.steps,
                per_device_train_batch_size=8,
                use_cpu=True,
                report_to="none",
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=TwoVocabularies(256),
            callbacks=[trainer_callback(options.record)] if options.record else [],
        )
        result = trainer.train()
    if trainer.is_world_process_zero():
        print(f"loss {result.training_loss:.4f} after {result.global_step} steps")


if __name__ == "__main__":
    main()
