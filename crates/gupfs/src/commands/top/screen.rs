//! The table on a terminal, every second.

use super::GroupBy;
use super::source::Source;
use super::table::LoadTable;
use super::users::UserNames;
use crate::exit::{CliResult, OrCliError};
use gupfs_platform::Clock;
use gupfs_proto::jobs::JobUse;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use std::time::Duration;

const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Shows the table until a key ends it.
///
/// # Errors
/// If the counts cannot be read at first, or the terminal fails. Later failures are shown, and the next second tries again.
pub fn run(source: &Source, by: GroupBy) -> CliResult<()> {
    let first = source.read()?;
    let mut terminal = ratatui::try_init().or_cli_error(|| "cannot use the terminal".into())?;
    let ended = show(&mut terminal, source, by, first);
    ratatui::restore();
    ended.or_cli_error(|| "the terminal failed".into())
}

fn show(
    terminal: &mut DefaultTerminal,
    source: &Source,
    mut by: GroupBy,
    mut now: JobUse,
) -> std::io::Result<()> {
    let clock = Clock::real();
    let (mut before, mut users, mut failure) = (None, UserNames::default(), None);
    loop {
        let table = LoadTable::new(&now, before.as_ref(), by, &mut users);
        draw(terminal, &source.name(), &table, failure.as_deref())?;
        let read_again = clock.boot() + REFRESH_INTERVAL;
        loop {
            let left = read_again.since(clock.boot());
            if !event::poll(left)? {
                break;
            }
            match key(&event::read()?) {
                Key::End => return Ok(()),
                Key::Group(other) => by = other,
                Key::None => {}
            }
            let table = LoadTable::new(&now, before.as_ref(), by, &mut users);
            draw(terminal, &source.name(), &table, failure.as_deref())?;
        }
        match source.read() {
            Ok(read) => {
                before = Some(std::mem::replace(&mut now, read));
                failure = None;
            }
            Err(error) => failure = Some(error.to_string()),
        }
    }
}

enum Key {
    End,
    Group(GroupBy),
    None,
}

fn key(event: &Event) -> Key {
    let Event::Key(key) = event else {
        return Key::None;
    };
    if key.kind != KeyEventKind::Press {
        return Key::None;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::End,
        KeyCode::Char('q') | KeyCode::Esc => Key::End,
        KeyCode::Char('j') => Key::Group(GroupBy::Job),
        KeyCode::Char('u') => Key::Group(GroupBy::User),
        KeyCode::Char('h') => Key::Group(GroupBy::Host),
        KeyCode::Char('t') => Key::Group(GroupBy::Ost),
        KeyCode::Char('c') => Key::Group(GroupBy::Op),
        _ => Key::None,
    }
}

fn draw(
    terminal: &mut DefaultTerminal,
    name: &str,
    table: &LoadTable,
    failure: Option<&str>,
) -> std::io::Result<()> {
    let title = format!(
        "{name}   j jobs · u users · h hosts · t targets · c calls · q quit   {}",
        failure.unwrap_or_default()
    );
    let rows: Vec<[String; 8]> = table.lines.iter().map(|line| table.cells(line)).collect();
    let headings = table.headings();
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.max().unwrap_or(0).clamp(headings[at].len(), 40) as u16
    };
    let widths: [Constraint; 8] = std::array::from_fn(|at| Constraint::Length(width(at)));
    let cell = |(at, text): (usize, String)| match (2..6).contains(&at) {
        true => Cell::from(Line::from(text).right_aligned()),
        false => Cell::from(text),
    };
    let row = |cells: [String; 8]| Row::new(cells.into_iter().enumerate().map(cell));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let heading = row(headings.map(str::to_owned)).style(bold);
    let body = Table::new(rows.into_iter().map(row), widths)
        .header(heading)
        .column_spacing(2);
    terminal.draw(|frame| {
        let parts = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]);
        let [top, rest] = parts.areas(frame.area());
        frame.render_widget(Line::from(title), top);
        frame.render_widget(body, rest);
    })?;
    Ok(())
}
