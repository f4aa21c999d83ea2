"""Files on other machines and in object stores, by URL. See docs/remote.md.

    URL ──urls──► path without a password ──stores──► Store ──► fsspec file system (sftp, s3, …)

Other parts use `core.filesystem` and `core.source`, which take paths of this machine and URLs alike.
Libraries are imported when the first URL is opened.
"""
