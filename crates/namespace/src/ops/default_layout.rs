use crate::driver::OpResult;
use crate::permission;
use crate::placement;
use crate::record::{DirectoryDefaultLayout, InodeBody, StoreFormat};
use crate::steps::{default_layout, feature};
use crate::view::{OpView, ReadView};
use gupfs_proto::layout::DefaultLayout;
use gupfs_proto::meta::{MetaReplyBody, PlacementTarget};
use gupfs_proto::{Caller, FsError, InodeId};

/// Returns the default layout: a directory's for new files in it, a file's own or that of its directory.
pub(crate) fn get_default_layout(view: &mut ReadView, ino: InodeId) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let (layout, inherited) = default_layout::of_inode(view, &inode)?;
    Ok(MetaReplyBody::DefaultLayout { layout, inherited })
}

/// Sets (or removes) a directory's default layout: new files in it use it, and new directories inherit it; existing files do not
/// change. A file can have its own as long as it has no objects. Only the owner may set it.
///
/// # Errors
/// `Invalid` for a redundancy that needs more failure domains than there are.
pub(crate) fn set_default_layout(
    view: &mut OpView,
    caller: &Caller,
    targets: &[PlacementTarget],
    ino: InodeId,
    layout: Option<&DefaultLayout>,
) -> OpResult<MetaReplyBody> {
    if let Some(layout) = layout {
        placement::check_default_layout(layout, targets)?;
        if layout.is_redundant() {
            feature::require(view, StoreFormat::MIRRORS)?;
        }
    }
    let inode = view.inode(ino)?;
    if !permission::is_owner_or_root(&inode, caller)
        || permission::is_immutable_or_append_only(&inode)
    {
        return Err(FsError::NotPermitted.into());
    }
    let now = view.now();
    match &inode.body {
        InodeBody::File(file) if !file.layout.is_empty() => return Err(FsError::Invalid.into()),
        InodeBody::File(_) => view.change_file(ino, |inode, file| {
            file.default_layout = layout.cloned();
            inode.touch_ctime(now);
        })?,
        InodeBody::Directory(_) => {
            let layout = match layout {
                Some(layout) => Some(DirectoryDefaultLayout {
                    layout: layout.clone(),
                    is_own: true,
                }),
                None => {
                    default_layout::of_parent(view, &inode)?.map(|layout| DirectoryDefaultLayout {
                        layout,
                        is_own: false,
                    })
                }
            };
            view.change_dir(ino, |inode, dir| {
                dir.default_layout = layout;
                inode.touch_ctime(now);
            })?;
        }
        InodeBody::Symlink(_) | InodeBody::Special => return Err(FsError::Invalid.into()),
    }
    Ok(MetaReplyBody::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{Record, RecordKey, StoreFormat};
    use gupfs_proto::layout::{DefaultLayout, Redundancy};
    use gupfs_proto::meta::{MetaOp, MetaReplyBody};
    use gupfs_proto::{Caller, FsError, OstId};

    fn layout_on(ost: u16) -> DefaultLayout {
        let mut layout = DefaultLayout::default();
        layout
            .components
            .iter_mut()
            .for_each(|component| (component.first, component.count) = (Some(OstId(ost)), 1));
        layout
    }

    fn set_layout(
        server: &mut TestServer,
        ino: gupfs_proto::InodeId,
        layout: Option<DefaultLayout>,
    ) -> Result<MetaReplyBody, FsError> {
        server.request(&Caller::root(), &MetaOp::SetDefaultLayout { ino, layout })
    }

    fn first_target(server: &mut TestServer, ino: gupfs_proto::InodeId) -> OstId {
        server.begin_write(ino).unwrap().layout.components[0].targets[0]
    }

    #[test]
    fn files_use_their_directorys_default_layout_and_directories_inherit_it() {
        let mut server = TestServer::new(64);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        let early = server.create(&root, dir, "early", 0o644).unwrap().ino;
        for ost in 0..4 {
            set_layout(&mut server, dir, Some(layout_on(ost))).unwrap();
            let below = server
                .mkdir(&root, dir, &format!("d{ost}"), 0o755)
                .unwrap()
                .ino;
            let file = server.create(&root, below, "f", 0o644).unwrap().ino;
            assert_eq!(first_target(&mut server, file), OstId(ost));
            let layout = server.request(&root, &MetaOp::GetDefaultLayout { ino: below });
            assert_eq!(
                layout,
                Ok(MetaReplyBody::DefaultLayout {
                    layout: layout_on(ost),
                    inherited: true
                })
            );
        }
        assert_eq!(first_target(&mut server, early), OstId(3));
        set_layout(&mut server, dir, None).unwrap();
        let layout = server.request(&root, &MetaOp::GetDefaultLayout { ino: dir });
        assert_eq!(
            layout,
            Ok(MetaReplyBody::DefaultLayout {
                layout: DefaultLayout::default(),
                inherited: true
            })
        );
    }

    #[test]
    fn a_file_can_have_its_own_default_layout_until_it_has_a_layout() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        set_layout(&mut server, file, Some(layout_on(2))).unwrap();
        assert_eq!(first_target(&mut server, file), OstId(2));
        assert_eq!(
            set_layout(&mut server, file, Some(layout_on(1))),
            Err(FsError::Invalid)
        );
        assert_eq!(
            set_layout(
                &mut server,
                ROOT,
                Some(DefaultLayout { components: vec![] })
            ),
            Err(FsError::Invalid)
        );
        let remove = MetaOp::SetDefaultLayout {
            ino: ROOT,
            layout: None,
        };
        assert_eq!(
            server.request(&user(1000), &remove),
            Err(FsError::NotPermitted)
        );
    }

    #[test]
    fn a_file_that_loses_its_first_name_keeps_that_directorys_default_layout() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        for ost in 0..4 {
            set_layout(&mut server, dir, Some(layout_on(ost))).unwrap();
            let file = server.create(&root, dir, "f", 0o644).unwrap().ino;
            server.link(&root, file, ROOT, &format!("f{ost}")).unwrap();
            server.unlink(&root, dir, "f").unwrap();
            assert_eq!(first_target(&mut server, file), OstId(ost));
            let nameless = entry(server.request(
                &root,
                &MetaOp::TmpFile {
                    dir,
                    create_mode: create_mode(0o600),
                },
            ))
            .unwrap()
            .ino;
            assert_eq!(first_target(&mut server, nameless), OstId(ost));
        }
    }

    #[test]
    fn a_removed_file_that_is_open_keeps_its_directorys_default_layout() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        for (ost, is_written) in [(0, false), (1, true), (2, false), (3, true)] {
            set_layout(&mut server, dir, Some(layout_on(ost))).unwrap();
            let file = server.create(&root, dir, "f", 0o644).unwrap().ino;
            if is_written {
                assert_eq!(first_target(&mut server, file), OstId(ost));
                server.end_write(file, report(9, &[(0, 0)]), true).unwrap();
            }
            server.unlink(&root, dir, "f").unwrap();
            server.truncate(file, 0).unwrap();
            assert_eq!(first_target(&mut server, file), OstId(ost));
        }
    }

    #[test]
    fn a_redundancy_needs_as_many_failure_domains_and_keeps_older_programs_out() {
        let mut server = TestServer::new(2);
        let set = |server: &mut TestServer, copies| {
            let mut layout = DefaultLayout::default();
            layout.components[1].redundancy = Redundancy::Mirror(copies);
            let layout = Some(layout);
            server.request(
                &Caller::root(),
                &MetaOp::SetDefaultLayout { ino: ROOT, layout },
            )
        };
        server
            .targets
            .iter_mut()
            .for_each(|target| target.domain /= 2);
        assert_eq!(set(&mut server, 3), Err(FsError::Invalid));
        let features = |server: &TestServer| {
            let format = server.records.get(&RecordKey::format()).unwrap();
            StoreFormat::decode(format).unwrap().features
        };
        assert_eq!(features(&server), 0);
        set(&mut server, 2).unwrap();
        assert_eq!(features(&server), StoreFormat::MIRRORS);
        server.assert_clean();
    }
}
