"""What becomes of files that come with a form?  Nothing: no page takes any, so none is kept."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import FileUploadHandler


class NoFiles(FileUploadHandler):
    """Lets the fields of a form through, within the size of any other body, and drops its files.

    Otherwise anybody could fill the disk: fields count toward the size of a body and files do not,
    and a form is read before it is known who sends it.
    """

    def handle_raw_input(
        self,
        input_data: Any,
        meta: Any,
        content_length: int,
        boundary: Any,
        encoding: str | None = None,
    ) -> None:
        """Raises RequestDataTooBig before anything is read of a body that may not be taken."""
        if content_length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise RequestDataTooBig("The form is longer than a body may be.")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        """Nothing is kept of it."""

    def file_complete(self, file_size: int) -> None:
        """And nothing comes of it."""
