import unittest

import values


class Values(unittest.TestCase):
    def test_the_slowest_of_four(self):
        self.assertEqual(values.slowest_and_ratio([10, 40, 20, 30], 50.0), (40.0, 2.0))

    def test_no_query_is_a_gap(self):
        self.assertEqual(values.slowest_and_ratio([], 50.0)[0], "the case has no queries")

    def test_an_impossible_percentile_is_refused(self):
        with self.assertRaisesRegex(ValueError, "got 0"):
            values.options('{"percentile": 0}')
