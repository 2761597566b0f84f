#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/download_glue_data against a server of our own that truncates, lies, stalls and forgets."""
import hashlib
import http.server
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "download_glue_data"
WNLI, AX, IDS = "glue/data/WNLI.zip", "glue/data/AX.tsv", "glue/data/mrpc_dev_ids.tsv"
RAW_TRAIN = "senteval/senteval_data/msr_paraphrase_train.txt"
RAW_TEST = "senteval/senteval_data/msr_paraphrase_test.txt"


def table(header, rows):
    return "\n".join([header] + [f"{i}\tfirst text {i}\tsecond text {i * 7919 % 1000}\t{i % 2}" for i in range(rows)]) + "\n"


def wnli_zip(train_rows=635, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("WNLI/original/train.tsv", "raw data, not ours")
        archive.writestr("WNLI/train.tsv", table("index\tsentence1\tsentence2\tlabel", train_rows))
        archive.writestr("WNLI/dev.tsv", table("index\tsentence1\tsentence2\tlabel", 71))
        archive.writestr("WNLI/test.tsv", table("index\tsentence1\tsentence2", 146))
    return out.getvalue()


def mrpc_raw():
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    pair = lambda i: f"{i % 2}\t{1000 + i}\t{9000 + i}\tHe said \u201c{i}\u201d .\tShe \x85 said {i} ."
    train = "\r\n".join([header] + [pair(i) for i in range(4076)]) + "\r\n"
    test = "\r\n".join([header] + [pair(i) for i in range(5000, 6725)]) + "\r\n"
    ids = "\n".join(f"{1000 + i}\t{9000 + i}" for i in range(3, 3 + 408 * 9, 9)) + "\n"
    return train.encode(), test.encode(), ids.encode()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers a request as the first of the path's scripted manners says; the last one stays."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = self.path.lstrip("/")
        ranged = self.headers.get("Range")
        with self.server.lock:
            self.server.requests.append((path, ranged))
            manners = self.server.manners.get(path, ["good"])
            manner = manners.pop(0) if len(manners) > 1 else manners[0]
        content = self.server.files.get(path)
        if content is None or manner == "missing":
            return self.send_error(404)
        if manner == "busy":
            return self.send_error(503)
        if manner == "other":
            content = bytes(len(content))
        start = int(ranged.split("=")[1].rstrip("-")) if ranged and manner != "rangeless" else 0
        if start >= len(content):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        if manner in ("truncated", "stalled"):
            body = body[:max(1, len(body) // 3)]
        self.wfile.write(body)
        self.wfile.flush()
        if manner == "stalled":
            self.server.stopping.wait()
        self.close_connection = True


class DownloadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        cls.server.daemon_threads = True
        cls.server.lock, cls.server.stopping = threading.Lock(), threading.Event()
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.stopping.set()
        cls.server.shutdown()
        cls.server.server_close()

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name) / "glue"
        train, test, ids = mrpc_raw()
        self.server.files = {WNLI: wnli_zip(), AX: table("index\tsentence1\tsentence2", 1104).encode(),
                             RAW_TRAIN: train, RAW_TEST: test, IDS: ids}
        self.server.manners, self.server.requests = {}, []

    def tearDown(self):
        self.scratch.cleanup()

    def known(self):
        return {path: [len(content), hashlib.sha256(content).hexdigest()]
                for path, content in self.server.files.items()}

    def download(self, tasks, *extra, known=None):
        checksums = Path(self.scratch.name) / "checksums.json"
        checksums.write_text(json.dumps(self.known() if known is None else known))
        command = [sys.executable, "-I", "-S", str(SCRIPT), "--data_dir", str(self.folder), "--tasks", tasks,
                   "--base_url", f"http://127.0.0.1:{self.server.server_port}", "--checksums", str(checksums),
                   "--timeout", "30", "--retries", "2", "--retry_wait", "0", *extra]
        environment = {**os.environ, "NO_PROXY": "127.0.0.1"}
        return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)

    def left_behind(self):
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*")) if self.folder.exists() else []

    def test_a_task_arrives_whole_and_nothing_else_stays(self):
        done = self.download("wnli")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.left_behind(), ["WNLI", "WNLI/dev.tsv", "WNLI/test.tsv", "WNLI/train.tsv"])
        self.assertEqual((self.folder / "WNLI/dev.tsv").read_text(), table("index\tsentence1\tsentence2\tlabel", 71))
        self.assertIn("as known", done.stderr)

    def test_mrpc_is_made_from_the_raw_pairs(self):
        done = self.download("MRPC,AX")
        self.assertEqual(done.returncode, 0, done.stderr)
        read = lambda name: (self.folder / "MRPC" / name).read_bytes().decode()
        header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        self.assertTrue(read("train.tsv").startswith(header + "0\t1000\t9000\tHe said \u201c0\u201d .\tShe \x85 said 0 .\n"))
        self.assertTrue(read("dev.tsv").startswith(header + "1\t1003\t9003\t"))
        self.assertTrue(read("test.tsv").startswith("index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t6000\t14000\t"))
        self.assertEqual([read(name).count("\n") for name in ("train.tsv", "dev.tsv", "test.tsv")], [3669, 409, 1726])
        self.assertTrue((self.folder / "AX/diagnostic.tsv").exists())

    def test_a_truncated_answer_is_resumed_where_it_stopped(self):
        self.server.manners[WNLI] = ["truncated", "good"]
        done = self.download("WNLI")
        self.assertEqual(done.returncode, 0, done.stderr)
        third = len(self.server.files[WNLI]) // 3
        self.assertEqual(self.server.requests, [(WNLI, None), (WNLI, f"bytes={third}-")])

    def test_a_later_run_resumes_what_an_earlier_one_left(self):
        self.server.manners[WNLI] = ["truncated", "missing"]
        first = self.download("WNLI")
        self.assertEqual(first.returncode, 1, first.stderr)
        self.assertIn("404", first.stderr)
        self.assertFalse((self.folder / "WNLI").exists())
        self.server.manners[WNLI] = ["good"]
        second = self.download("WNLI")
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertIn("resuming", second.stderr)
        self.assertEqual(self.server.requests[-1], (WNLI, f"bytes={len(self.server.files[WNLI]) // 3}-"))
        self.assertNotIn(".download", self.left_behind())

    def test_a_stalled_answer_is_dropped_and_resumed(self):
        self.server.manners[WNLI] = ["stalled", "good"]
        done = self.download("WNLI", "--timeout", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(self.server.requests), 1)  # the first answer never ends, so it was dropped

    def test_a_server_that_always_truncates_ends_in_one_error(self):
        known = self.known()
        self.server.manners[AX] = ["truncated"]
        self.server.files[AX] = self.server.files[AX] * 50
        done = self.download("AX", known=known)
        self.assertIn(done.returncode, (1, 4), done.stderr)
        self.assertIn("error:", done.stderr)
        self.assertFalse((self.folder / "AX").exists())

    def test_a_server_that_cannot_resume_is_asked_for_the_whole(self):
        self.server.manners[WNLI] = ["truncated", "rangeless"]
        done = self.download("WNLI")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_busy_server_is_asked_again(self):
        self.server.manners[WNLI] = ["busy", "good"]
        self.assertEqual(self.download("WNLI").returncode, 0)

    def test_wrong_content_is_refused_and_nothing_stays(self):
        self.server.manners[WNLI] = ["other"]
        done = self.download("WNLI")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(f"{WNLI}: got SHA-256", done.stderr)
        self.assertEqual(self.left_behind(), [])

    def test_a_wrong_beginning_is_noticed_and_fetched_again(self):
        (self.folder / ".download").mkdir(parents=True)
        (self.folder / ".download" / (WNLI.replace("/", "_") + ".part")).write_bytes(b"something else")
        done = self.download("WNLI")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("starting again", done.stderr)

    def test_a_wrong_size_is_refused(self):
        known = self.known()
        known[AX][0] += 1
        done = self.download("AX", known=known)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("bytes, want", done.stderr)
        self.assertEqual(self.left_behind(), [])

    def test_unknown_checksums_are_said_and_printed(self):
        done = self.download("AX", known={})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(hashlib.sha256(self.server.files[AX]).hexdigest() + " (none known)", done.stderr)

    def test_an_archive_with_too_few_rows_is_refused(self):
        self.server.files[WNLI] = wnli_zip(train_rows=634, method=zipfile.ZIP_DEFLATED)
        done = self.download("WNLI")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("got 634 examples, want 635", done.stderr)
        self.assertFalse((self.folder / "WNLI").exists())

    def test_what_is_no_archive_is_refused(self):
        self.server.files[WNLI] = b"<html>moved</html>"
        done = self.download("WNLI")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("no readable zip archive", done.stderr)

    def test_an_archive_without_a_file_is_refused(self):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("WNLI/train.tsv", "x")
        self.server.files[WNLI] = out.getvalue()
        done = self.download("WNLI")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("no dev.tsv in the archive", done.stderr)

    def test_a_raw_pair_with_too_few_columns_names_its_line(self):
        self.server.files[RAW_TEST] = self.server.files[RAW_TEST].replace(b"\t14001\t", b"14001\t", 1)
        done = self.download("MRPC")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("msr_paraphrase_test.txt:3: got 4 columns, want 5", done.stderr)
        self.assertFalse((self.folder / "MRPC").exists())

    def test_a_folder_that_is_there_is_left_alone_unless_forced(self):
        self.assertEqual(self.download("WNLI").returncode, 0)
        asked = len(self.server.requests)
        again = self.download("WNLI")
        self.assertEqual((again.returncode, len(self.server.requests)), (0, asked))
        (self.folder / "WNLI/dev.tsv").unlink()
        broken = self.download("WNLI")
        self.assertEqual(broken.returncode, 2, broken.stderr)
        self.assertIn("--force", broken.stderr)
        self.assertEqual(self.download("WNLI", "--force").returncode, 0)
        self.assertTrue((self.folder / "WNLI/dev.tsv").exists())

    def test_an_unknown_task_suggests_the_nearest(self):
        done = self.download("WLNI")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("did you mean 'WNLI'?", done.stderr)
        self.assertEqual(self.server.requests, [])

    def test_a_host_that_does_not_answer_is_one_error(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            done = self.download("AX", "--base_url", f"http://127.0.0.1:{unused.getsockname()[1]}")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("gave up after 3 attempts", done.stderr)

    def test_a_folder_that_cannot_be_made_is_a_matter_of_resources(self):
        self.folder = Path("/proc/exeunt")
        self.assertEqual(self.download("AX").returncode, 3)

    def test_a_full_disk_is_a_matter_of_resources(self):
        (self.folder / ".download").mkdir(parents=True)
        (self.folder / ".download" / (AX.replace("/", "_") + ".part")).symlink_to("/dev/full")
        done = self.download("AX")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("free some space", done.stderr)
        self.assertFalse((self.folder / "AX").exists())


if __name__ == "__main__":
    unittest.main()
