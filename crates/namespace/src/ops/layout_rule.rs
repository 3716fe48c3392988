use crate::may;
use crate::record::{Body, Inode, Ruled};
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::layout::LayoutRule;
use gupfs_proto::meta::Answer;
use gupfs_proto::{InodeId, Refusal};

/// How files here are laid out: a directory's rule for what is made in it, a file's own or its directory's.
pub(crate) fn get_layout_rule(view: &mut View, ino: InodeId) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let (rule, inherited) = rule_of(view, &inode)?;
    Ok(Answer::LayoutRule { rule, inherited })
}

/// Sets (or takes away) a directory's rule: new files in it follow it, and new directories inherit it; what is there stays as
/// it is. A file can have its own as long as it has no objects. Only the owner may.
pub(crate) fn set_layout_rule(
    view: &mut View,
    ino: InodeId,
    rule: Option<&LayoutRule>,
) -> Outcome<Answer> {
    if let Some(rule) = rule {
        rule.check()?;
    }
    let inode = view.inode(ino)?;
    if !may::owns(&inode, view.ctx.caller) || may::is_fixed(&inode) {
        return Err(Refusal::NotPermitted.into());
    }
    let now = view.ctx.now;
    match &inode.body {
        Body::File(file) if !file.layout.is_empty() => return Err(Refusal::Invalid.into()),
        Body::File(_) => view.change_file(ino, |inode, file| {
            file.rule = rule.cloned();
            inode.touch(now);
        })?,
        Body::Directory(_) => {
            let rule = match rule {
                Some(rule) => Some(Ruled {
                    rule: rule.clone(),
                    own: true,
                }),
                None => parents_rule(view, &inode)?.map(|rule| Ruled { rule, own: false }),
            };
            view.change_dir(ino, |inode, dir| {
                dir.rule = rule;
                inode.touch(now);
            })?;
        }
        Body::Symlink(_) | Body::Special => return Err(Refusal::Invalid.into()),
    }
    Ok(Answer::Done)
}

/// The rule that holds for an inode, and whether it comes from elsewhere.
pub(crate) fn rule_of(view: &mut View, inode: &Inode) -> Outcome<(LayoutRule, bool)> {
    match &inode.body {
        Body::Directory(dir) => Ok(match &dir.rule {
            Some(ruled) => (ruled.rule.clone(), !ruled.own),
            None => (LayoutRule::default(), true),
        }),
        Body::File(file) => match &file.rule {
            Some(rule) => Ok((rule.clone(), false)),
            None => Ok((parents_rule(view, inode)?.unwrap_or_default(), true)),
        },
        Body::Symlink(_) | Body::Special => Err(Refusal::Invalid.into()),
    }
}

fn parents_rule(view: &mut View, inode: &Inode) -> Outcome<Option<LayoutRule>> {
    let Some(parent) = inode.parent else {
        return Ok(None);
    };
    let parent = view.inode(parent.dir)?;
    Ok(parent
        .directory()?
        .rule
        .as_ref()
        .map(|ruled| ruled.rule.clone()))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::layout::LayoutRule;
    use gupfs_proto::meta::{Answer, Op};
    use gupfs_proto::{Caller, OstId, Refusal};

    fn on(ost: u16) -> LayoutRule {
        let mut rule = LayoutRule::default();
        rule.components
            .iter_mut()
            .for_each(|component| (component.first, component.count) = (Some(OstId(ost)), 1));
        rule
    }

    fn set(
        server: &mut Server,
        ino: gupfs_proto::InodeId,
        rule: Option<LayoutRule>,
    ) -> Result<Answer, Refusal> {
        server.ask(&Caller::root(), &Op::SetLayoutRule { ino, rule })
    }

    fn first(server: &mut Server, ino: gupfs_proto::InodeId) -> OstId {
        server.begin_write(ino).unwrap().layout.components[0].targets[0]
    }

    #[test]
    fn files_follow_their_directory_and_directories_inherit() {
        let mut server = Server::new(64);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        let early = server.create(&root, dir, "early", 0o644).unwrap().ino;
        for ost in 0..4 {
            set(&mut server, dir, Some(on(ost))).unwrap();
            let below = server
                .mkdir(&root, dir, &format!("d{ost}"), 0o755)
                .unwrap()
                .ino;
            let file = server.create(&root, below, "f", 0o644).unwrap().ino;
            assert_eq!(first(&mut server, file), OstId(ost));
            let rule = server.ask(&root, &Op::GetLayoutRule { ino: below });
            assert_eq!(
                rule,
                Ok(Answer::LayoutRule {
                    rule: on(ost),
                    inherited: true
                })
            );
        }
        assert_eq!(first(&mut server, early), OstId(3));
        set(&mut server, dir, None).unwrap();
        let rule = server.ask(&root, &Op::GetLayoutRule { ino: dir });
        assert_eq!(
            rule,
            Ok(Answer::LayoutRule {
                rule: LayoutRule::default(),
                inherited: true
            })
        );
    }

    #[test]
    fn a_file_keeps_a_rule_of_its_own_until_it_is_laid_out() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        set(&mut server, file, Some(on(2))).unwrap();
        assert_eq!(first(&mut server, file), OstId(2));
        assert_eq!(set(&mut server, file, Some(on(1))), Err(Refusal::Invalid));
        assert_eq!(
            set(&mut server, ROOT, Some(LayoutRule { components: vec![] })),
            Err(Refusal::Invalid)
        );
        let his = Op::SetLayoutRule {
            ino: ROOT,
            rule: None,
        };
        assert_eq!(server.ask(&user(1000), &his), Err(Refusal::NotPermitted));
    }

    #[test]
    fn a_file_that_loses_its_first_name_keeps_that_directorys_rule() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        for ost in 0..4 {
            set(&mut server, dir, Some(on(ost))).unwrap();
            let file = server.create(&root, dir, "f", 0o644).unwrap().ino;
            server.link(&root, file, ROOT, &format!("f{ost}")).unwrap();
            server.unlink(&root, dir, "f").unwrap();
            assert_eq!(first(&mut server, file), OstId(ost));
            let nameless = entry(server.ask(
                &root,
                &Op::TmpFile {
                    dir,
                    make: make(0o600),
                },
            ))
            .unwrap()
            .ino;
            assert_eq!(first(&mut server, nameless), OstId(ost));
        }
    }
}
