//! Prints the reference of metrics as Markdown; `docs/metrics.md` is its output.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().lock().write_all(gpu_api::metric::markdown_table().as_bytes())
}
