//! Top-k accuracy over the labelled data set, with a Wilson interval.
