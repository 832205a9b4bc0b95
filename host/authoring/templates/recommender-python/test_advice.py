import unittest

import advice


def row(case, value):
    return {"case_id": case, "metric": "latency.p50", "value": value, "unit": "ns"}


class Advice(unittest.TestCase):
    def test_the_lowest_is_advised(self):
        rows = [row("a", 300.0), row("b", 200.0), row("c", None)]
        self.assertEqual(advice.lowest("latency.p50", rows)["case_id"], "b")

    def test_without_values_there_is_no_advice(self):
        self.assertIsNone(advice.lowest("latency.p50", []))
