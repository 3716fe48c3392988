//! The text format of Prometheus (version 0.0.4): families of samples.

use std::fmt::{Display, Write};
use std::time::Duration;

/// A page. It keeps the samples of one family together, in whatever order they are added.
#[derive(Default)]
pub struct MetricsText {
    families: Vec<Family>,
}

struct Family {
    name: &'static str,
    lines: String,
}

/// The labels of a sample: `[("op", "create")]`.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

impl MetricsText {
    /// Adds a sample of a value that never decreases.
    pub fn counter(&mut self, name: &'static str, help: &str, labels: Labels<'_>, value: u64) {
        self.family(name, "counter", help)
            .sample("", labels, None, value);
    }

    /// Adds a sample of a value that may decrease.
    pub fn gauge(&mut self, name: &'static str, help: &str, labels: Labels<'_>, value: u64) {
        self.family(name, "gauge", help)
            .sample("", labels, None, value);
    }

    /// `buckets`: (upper bound, count of this bucket alone), in ascending order; None is no bound.
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &str,
        labels: Labels<'_>,
        buckets: impl IntoIterator<Item = (Option<Duration>, u64)>,
        sum: Duration,
    ) {
        let family = self.family(name, "histogram", help);
        let mut count = 0;
        for (bound, here) in buckets {
            count += here;
            if let Some(bound) = bound {
                let bound = bound.as_secs_f64().to_string();
                family.sample("_bucket", labels, Some(&bound), count);
            }
        }
        family.sample("_bucket", labels, Some("+Inf"), count);
        family.sample("_sum", labels, None, sum.as_secs_f64());
        family.sample("_count", labels, None, count);
    }

    pub fn finish(self) -> String {
        self.families
            .into_iter()
            .map(|family| family.lines)
            .collect()
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> &mut Family {
        let index = match self.families.iter().position(|family| family.name == name) {
            Some(index) => index,
            None => {
                let lines = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
                self.families.push(Family { name, lines });
                self.families.len() - 1
            }
        };
        &mut self.families[index]
    }
}

impl Family {
    fn sample(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        below: Option<&str>,
        value: impl Display,
    ) {
        self.lines.push_str(self.name);
        self.lines.push_str(suffix);
        let all = labels
            .iter()
            .copied()
            .chain(below.map(|bound| ("le", bound)));
        for (index, (key, value)) in all.enumerate() {
            self.lines.push(if index == 0 { '{' } else { ',' });
            // Writing to a String cannot fail.
            let _ = write!(self.lines, "{key}=\"{}\"", escape(value));
        }
        if !labels.is_empty() || below.is_some() {
            self.lines.push('}');
        }
        let _ = writeln!(self.lines, " {value}");
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_page_has_one_header_for_each_family_and_cumulative_buckets() {
        let mut text = MetricsText::default();
        let help = "Operations done.";
        text.counter("gupfs_operations_total", help, &[("op", "mkdir")], 3);
        text.counter("gupfs_operations_total", help, &[("op", "a\"b\\c")], 1);
        text.gauge("gupfs_free_bytes", "Free.", &[], 7);
        text.counter("gupfs_operations_total", help, &[("op", "rmdir")], 2);
        let micros = |n| Some(Duration::from_micros(n));
        text.histogram(
            "gupfs_operation_seconds",
            "How long.",
            &[("op", "mkdir")],
            [(micros(2), 1), (micros(4), 0), (micros(8), 2), (None, 1)],
            Duration::from_micros(30),
        );
        expect![[r#"
            # HELP gupfs_operations_total Operations done.
            # TYPE gupfs_operations_total counter
            gupfs_operations_total{op="mkdir"} 3
            gupfs_operations_total{op="a\"b\\c"} 1
            gupfs_operations_total{op="rmdir"} 2
            # HELP gupfs_free_bytes Free.
            # TYPE gupfs_free_bytes gauge
            gupfs_free_bytes 7
            # HELP gupfs_operation_seconds How long.
            # TYPE gupfs_operation_seconds histogram
            gupfs_operation_seconds_bucket{op="mkdir",le="0.000002"} 1
            gupfs_operation_seconds_bucket{op="mkdir",le="0.000004"} 1
            gupfs_operation_seconds_bucket{op="mkdir",le="0.000008"} 3
            gupfs_operation_seconds_bucket{op="mkdir",le="+Inf"} 4
            gupfs_operation_seconds_sum{op="mkdir"} 0.00003
            gupfs_operation_seconds_count{op="mkdir"} 4
        "#]]
        .assert_eq(&text.finish());
    }
}
