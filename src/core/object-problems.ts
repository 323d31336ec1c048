/** The problems of objects, under the names of S3, and of uploads. */

import { row } from './problem-row.ts'

export const OBJECT_PROBLEMS = {
  InvalidKey: row(
    400,
    'The object key is not valid',
    'Use a key that is not empty, without `.` or `..` between slashes, and without NUL.',
  ),
  KeyTooLongError: row(400, 'The object key is too long', 'See `detail` for the limit.'),
  InvalidBucketName: row(
    400,
    'The bucket name is not valid',
    'Use 3 to 63 lower-case letters, digits and inner hyphens.',
  ),
  InvalidRequest: row(400, 'The object store rejects the request', 'See `detail` for the reason.'),
  AccessDenied: row(
    403,
    'The bucket does not belong to this workspace',
    'Use the bucket of the workspace, with a credential of that workspace.',
  ),
  NoSuchBucket: row(404, 'There is no such bucket', 'Check the name of the bucket.'),
  NoSuchKey: row(404, 'There is no such object', 'Check the key. Keys are case-sensitive.'),
  bucket_required: row(409, 'The workspace has no bucket', 'Use a workspace that was created with a bucket.'),
  PreconditionFailed: row(
    412,
    'The object does not meet the condition',
    'Read the object again, then retry with its ETag.',
  ),
  NoSuchUpload: row(
    404,
    'There is no such upload',
    'Begin an upload again. One without new parts for seven days is removed.',
  ),
  InvalidPart: row(
    400,
    'A part of the upload is missing or differs',
    'Send the part again, then end the upload.',
  ),
  InvalidPartOrder: row(
    400,
    'The parts are not in ascending order',
    'Name the parts in the order of their numbers.',
  ),
  EntityTooSmall: row(400, 'A part of the upload is too small', 'See `detail` for the limit.'),
  upload_expired: row(409, 'The upload stood still for too long', 'Send the object again.'),
  upload_gone: row(
    410,
    'The upload is over',
    'Begin an upload again. One without new bytes for seven days is removed.',
  ),
  upload_offset_differs: row(
    409,
    'The upload does not continue at this offset',
    'Read `Upload-Offset` with HEAD, and send what is behind it.',
  ),
  upload_checksum_differs: row(
    460,
    'The body does not have the checksum of `Upload-Checksum`',
    'Send the same bytes again. Nothing of the body was kept.',
  ),
  tus_version_unsupported: row(412, 'The version of tus is not supported', 'Send `Tus-Resumable: 1.0.0`.'),
  EntityTooLarge: row(413, 'The object is too large', 'See `detail` for the limit.'),
  InvalidRange: row(
    416,
    'The range is outside the object',
    'See the `Content-Range` header for the length of the object.',
  ),
  content_invalid: row(
    422,
    'The content does not match its type',
    'Store the object again with the correct content type.',
  ),
}
