/** Problems of objects: those of the S3 API under the names of S3, and those of uploads, images, archives and links. */

import { row } from './problem-row.ts'
import { TUS_VERSION } from './tus.ts'

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
  InvalidArgument: row(
    400,
    'A parameter or header is not valid',
    'See `detail` for its name and the reason.',
  ),
  InvalidURI: row(
    400,
    'The URL has malformed escapes',
    'Encode the key as UTF-8, with `%XX` for each reserved byte.',
  ),
  InvalidTag: row(400, 'A tag is not valid', 'See `detail` for the limit.'),
  MalformedXML: row(
    400,
    'The body is not the expected XML',
    'Send the document that the operation describes, without DTD and entities of your own.',
  ),
  MetadataTooLarge: row(400, 'The metadata of the object is too large', 'See `detail` for the limit.'),
  XAmzContentSHA256Mismatch: row(
    400,
    'The body does not have the signed digest',
    'Send the body again, with its SHA-256 in x-amz-content-sha256. Nothing was stored.',
  ),
  AuthorizationHeaderMalformed: row(
    400,
    'The header Authorization is not valid',
    'See `detail` for its form.',
  ),
  AuthorizationQueryParametersError: row(
    400,
    'The parameters of the presigned URL are not valid',
    'See `detail` for the parameter.',
  ),
  SignatureDoesNotMatch: row(
    403,
    'The signature does not match the request',
    'Check the secret access key, and that nothing between client and server changes path, query or headers.',
  ),
  RequestTimeTooSkewed: row(
    403,
    'The time of the signature differs too much from that of the server',
    'Set the clock of the client; the difference may be 15 minutes.',
  ),
  NotImplemented: row(
    501,
    'The S3 API does not have this operation',
    'See docs/s3.md for the operations, or use the REST API.',
  ),
  AccessDenied: row(
    403,
    'The bucket does not belong to this workspace',
    'Use the bucket of the workspace, with a credential of that workspace.',
  ),
  NoSuchBucket: row(404, 'There is no such bucket', 'Check the name of the bucket.'),
  NoSuchKey: row(404, 'There is no such object', 'Check the key. Keys are case-sensitive.'),
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
  EntityTooLarge: row(413, 'The object is too large', 'See `detail` for the limit.'),
  InvalidRange: row(
    416,
    'The range is outside the object',
    'See the `Content-Range` header for the length of the object.',
  ),

  bucket_required: row(409, 'The workspace has no bucket', 'Use a workspace that was created with a bucket.'),
  upload_expired: row(
    410,
    'The upload stood still for too long',
    'Send the object again. A request may make no progress for ten minutes, and an upload that resumes for seven days.',
  ),
  too_many_uploads: row(
    429,
    'Too many uploads are open',
    'Complete or delete uploads that are open, then begin this one again. An upload without new bytes ends after seven days.',
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
  tus_version_unsupported: row(
    412,
    'The version of tus is not supported',
    `Send \`Tus-Resumable: ${TUS_VERSION}\`.`,
  ),
  content_invalid: row(
    422,
    'The content does not match its type',
    'Store the object again with the correct content type.',
  ),
  archive_invalid: row(
    422,
    'The archive cannot be imported',
    'Import an archive as an export has made it. Nothing was kept.',
  ),
  image_not_allowed: row(
    400,
    'The workspace does not convert images to this size or format',
    'Request a size and a format that `detail` names.',
    { adminHint: 'An admin lists them in the setting `objects.images`: POST /v1/services/configure.' },
  ),
  image_too_large: row(
    413,
    'The image is too large to be converted',
    'Store a smaller image, or request the object without a size. See `detail` for the limit.',
  ),
  image_unreadable: row(
    422,
    'The object is not an image that can be converted',
    'Store a complete JPEG, PNG, WebP, GIF or AVIF image, or request the object without a size.',
  ),
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
