#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check of examples/feedback finds what it is meant to find."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples" / "feedback"))
import dataset  # noqa: E402


def row(text, label="praise", kind="easy"):
    return dataset.Row(text, label, kind)


def broken(splits):
    return [promise for promise, wrong in dataset.promises(splits) if wrong]


class NearDuplicates(unittest.TestCase):
    def test_texts_that_differ_in_a_noun_are_near(self):
        rows = [row("Please sell the green tea in a bigger box"), row("Nothing like it at all, thank heaven"),
                row("Please sell the black tea in a bigger box")]
        self.assertEqual(dataset.near_pairs(rows), {(0, 2)})

    def test_texts_that_differ_in_their_endings_are_near(self):
        self.assertEqual(dataset.near_pairs([row("Opening Sundays?"), row("opening sunday")]), {(0, 1)})

    def test_texts_with_half_of_their_words_in_common_are_the_limit(self):
        self.assertTrue(dataset.near_pairs([row("zebra mole yak"), row("zebra yak otter")]))
        self.assertFalse(dataset.near_pairs([row("zebra mole yak lynx"), row("zebra yak otter hedgehog")]))

    def test_the_quick_search_finds_what_comparing_all_pairs_finds(self):
        rows = dataset.read_splits(ROOT / "examples" / "feedback")["dev"][:80]
        rows += [row(r.text + " Really") for r in rows[:20]] + [row(" ".join(r.text.split()[::2])) for r in rows[20:40]]
        slow = set()
        for features in ([set(dataset.words(r.text)) for r in rows], [dataset.runs_of_letters(r.text) for r in rows]):
            slow |= {(i, j) for j in range(len(rows)) for i in range(j)
                     if len(features[i] & features[j]) >= dataset.NEAR * len(features[i] | features[j])}
        self.assertGreater(len(slow), 20)
        self.assertEqual(dataset.near_pairs(rows), slow)


    def test_questions_about_the_same_thing_share_their_content_words(self):
        rows = [row("Does the headset have a mute button?"), row("where is the mute button on the headset"),
                row("where is the lost property office in the station")]
        self.assertEqual(dataset.near_pairs(rows, [dataset.content_words]), {(0, 1)})

    def test_a_sentence_with_two_words_exchanged_has_the_same_shape(self):
        rows = [row("My bag never came"), row("My order never came"), row("The green lamp fell off its table"),
                row("The green vase fell off its shelf"), row("The big vase slid off its shelf")]
        self.assertEqual(dataset.same_shape(rows), {(2, 3), (3, 4)})


class Promises(unittest.TestCase):
    usual = None

    def setUp(self):
        self.splits = dataset.read_splits(ROOT / "examples" / "feedback")
        # The search for near duplicates in all texts takes seconds and runs in the check itself.
        self.splits["train"] = self.splits["train"][:1]
        Promises.usual = Promises.usual if Promises.usual is not None else broken(self.splits)

    def test_a_text_learned_and_certified_is_found(self):
        self.splits["train"].append(self.splits["certify"][7])
        self.assertIn("no near duplicates across splits", broken(self.splits))
        self.assertNotIn("no near duplicates across splits", self.usual)

    def test_texts_about_the_same_thing_in_two_splits_are_found(self):
        self.splits["train"].append(row("Where do I find a mute button at this headset?", "question"))
        self.assertIn("no half of the content words in common across splits", broken(self.splits))
        self.assertNotIn("no half of the content words in common across splits", self.usual)

    def test_a_text_in_another_split_than_its_hash_says_is_found(self):
        self.splits["dev"], self.splits["certify"] = self.splits["certify"], self.splits["dev"]
        self.assertIn("praise, easy: splits drawn by hash", broken(self.splits))

    def test_too_few_texts_are_found(self):
        self.splits["certify"].pop()
        self.assertIn("1,000 for certification", broken(self.splits))
        self.assertNotIn("1,000 for certification", self.usual)
        self.assertIn("at least 3,000 texts", self.usual)

    def test_a_class_that_outnumbers_the_others_is_found(self):
        self.splits["dev"] = [r for r in self.splits["dev"] if r.label != "notice" or r.kind == "easy"]
        self.assertIn("dev: labels and kinds in like numbers", broken(self.splits))
        self.assertNotIn("dev: labels and kinds in like numbers", self.usual)

    def test_a_template_is_found(self):
        self.splits["dev"] += [row(f"I would like {word} served on weekdays") for word in
                               ("sprouts mangos figs kale plums dates limes pears beans peas leeks okra yams corn".split())]
        self.assertIn("no opening of three words in more than 1 % of the texts", broken(self.splits))


class Assembly(unittest.TestCase):
    def test_splits_do_not_depend_on_the_order_of_the_texts(self):
        lines = [f"{r.label}\t{r.kind}\t{r.text}" for r in dataset.read_splits(ROOT / "examples" / "feedback")["dev"]]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            made = []
            for order in (lines, lines[::-1]):
                (folder / "texts.tsv").write_text("\n".join(order), encoding="utf-8")
                dataset.assemble(folder, [folder / "texts.tsv"])
                made.append((folder / "certify.csv").read_bytes())
            self.assertEqual(made[0], made[1])
            self.assertEqual(len(dataset.read_splits(folder)["certify"]), len(lines))


if __name__ == "__main__":
    unittest.main()
