import unittest

import page


class Page(unittest.TestCase):
    def test_a_case_without_a_value_is_a_gap(self):
        cases = [{"case_id": name, "model": "digits", "batch": 1} for name in "ab"]
        results = [{"case_id": "a", "metric": "latency.p50", "value": 250.0, "unit": "ns"}]
        text = page.markdown("Median latency", cases, results)
        self.assertTrue(text.startswith("# Median latency\n"))
        self.assertIn("| a | digits | 1 | 250 ns |", text)
        self.assertIn("| b | digits | 1 | gap |", text)

    def test_an_empty_title_is_refused(self):
        with self.assertRaisesRegex(ValueError, "not empty"):
            page.options('{"title": ""}')
