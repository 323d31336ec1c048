/** Problems of objects and of requests of the S3 API, under the names of S3. */

import { row } from './problem-row.ts'

export const S3_PROBLEMS = {
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
} as const
