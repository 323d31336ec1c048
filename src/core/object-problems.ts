/** The problems of objects, a part of the catalogue of problems. */

import { row } from './problem-row.ts'

export const OBJECT_PROBLEMS = {
  // Under the names of S3
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

  // Links
  link_invalid: row(
    403,
    'The link is not valid',
    'Copy the link once more, to its end, and send it with the method that it was made for; or get a new one.',
  ),
  link_expired: row(
    403,
    'The link has expired',
    'Get a new link: the time of this one is over, or the credential that made it has ended.',
  ),
  link_exceeded: row(
    403,
    'The link does not allow this upload',
    'Send what `detail` allows, or get a link that allows more.',
  ),
} as const
