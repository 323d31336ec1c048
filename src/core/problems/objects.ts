/** What objects can be refused for, under S3's own names. */

import type { Row } from './row.ts'

export const OBJECTS = {
  InvalidKey: {
    status: 400,
    title: 'The object key is not valid',
    help: 'No empty key, no `.` or `..` between slashes, no control characters.',
  },
  KeyTooLongError: { status: 400, title: 'The object key is too long', help: 'See `detail` for the limit.' },
  InvalidBucketName: {
    status: 400,
    title: 'The bucket name is not valid',
    help: 'Lower-case letters, digits and inner hyphens, 3 to 63.',
  },
  InvalidRequest: { status: 400, title: 'The object store refuses the request', help: 'See `detail`.' },
  AccessDenied: {
    status: 403,
    title: 'The bucket is not of this workspace',
    help: 'Use the bucket that the workspace names, with a credential of that workspace.',
  },
  NoSuchBucket: { status: 404, title: 'There is no such bucket', help: 'Check its name.' },
  NoSuchKey: {
    status: 404,
    title: 'There is no such object',
    help: 'Check the key; keys are case-sensitive.',
  },
  bucket_required: {
    status: 409,
    title: 'The workspace has no bucket',
    help: 'Objects need a workspace that was made with one.',
  },
  PreconditionFailed: {
    status: 412,
    title: 'The object is not as the condition says',
    help: 'Read it again, then retry with its ETag.',
  },
  EntityTooLarge: { status: 413, title: 'The object is too large', help: 'See `detail` for the limit.' },
  InvalidRange: {
    status: 416,
    title: 'The range lies outside the object',
    help: 'See the `Content-Range` header for its length.',
  },
  content_invalid: {
    status: 422,
    title: 'The content is not of its type',
    help: 'Store it again with the right content type.',
  },
} as const satisfies Record<string, Row>
