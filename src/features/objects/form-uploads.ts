/** Stores the file of a form that a browser sends (`multipart/form-data`, RFC 7578), as a stream. */

import { Readable } from 'node:stream'
import { Busboy, type BusboyInstance } from '@fastify/busboy'
import { Input, workspaceOperation } from '../../access/operation-builders.ts'
import { type ByteSource, Bytes } from '../../core/bytes.ts'
import { checkBucket } from '../../core/object-key.ts'
import { WRITERS_AND_USERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { isLinked, withinLink } from './links.ts'
import { Bucket, Header, Key, keptHeaders, Stored } from './object-fields.ts'
import { requireObjectRule } from './object-rules.ts'
import { objectsOf } from './workspace-objects.ts'

export const uploadForm = workspaceOperation({
  name: 'object.upload_form',
  summary: 'Store the file of a form',
  roles: WRITERS_AND_USERS,
  input: Input({
    bucket: Bucket,
    key: Key,
    form: Bytes(
      `Form with one file of at most ${OBJECT_LIMITS.requestBytesMax} bytes, and no other field. The object gets the media type of the file.`,
    ),
    content_type: Header('`multipart/form-data` with its `boundary`.'),
  }),
  output: Stored,
  http: {
    method: 'POST',
    path: '/v1/objects/{bucket}/{key*}',
    linkInQuery: true,
    body: 'form',
    takes: 'bytes',
    bytesType: 'multipart/form-data',
    headers: { content_type: 'content-type' },
    status: ({ created }) => (created ? 201 : 200),
    also: [200],
    etag: ({ etag }) => etag,
  },
  run: async (scope, { bucket, key, form, content_type = '' }) => {
    await requireObjectRule(scope, 'write', key)
    const name = { bucket: checkBucket(bucket), key }
    const objects = objectsOf(scope)
    await objects.requireName(name)
    const file = await readFile(form, content_type, isLinked(scope) ? 'link_exceeded' : 'validation_failed')
    try {
      const upload = withinLink(scope, file)
      const headers = keptHeaders({ content_type: file.type, ...upload.headers })
      return { ...name, ...(await objects.put(name, upload.source, { headers, metadata: {}, tags: {} })) }
    } finally {
      file.close()
    }
  },
})

interface FormFile {
  readonly type: string
  /** Its chunks end only after the form has ended, and had nothing else. */
  readonly source: ByteSource
  /** Stops reading the form. */
  readonly close: () => void
}

/** Bytes and number of headers of the one part. */
const PART = { headerSize: 16_384, headerPairs: 50 }
const LIMITS = { files: 1, fields: 0, parts: 1, ...PART }

/**
 * Reads a form up to its file.
 * @param refusal the code for a form with something else
 * @throws Problem `media_type_unsupported`, `body_incomplete`
 */
async function readFile(
  form: ByteSource,
  contentType: string,
  refusal: 'link_exceeded' | 'validation_failed',
): Promise<FormFile> {
  const parser = parserOf(contentType)
  const body = Readable.from(form.chunks, { objectMode: false })
  const { promise: found, resolve, reject } = Promise.withResolvers<FormFile>()
  const { promise: ended, resolve: end, reject: fail } = Promise.withResolvers<void>()
  let file: Readable | undefined
  const refuse = (error: unknown) => {
    const problem = error instanceof Problem ? error : new Problem('body_incomplete', { cause: error })
    reject(problem)
    fail(problem)
    body.unpipe(parser)
    file?.destroy(problem)
  }
  const refuseContent = () => refuse(new Problem(refusal, { detail: CONTENT }))
  parser
    .once('file', (_field, stream, filename, _encoding, type) => {
      file = stream.on('error', refuse)
      if (filename === '') return refuseContent()
      resolve({ type, source: { chunks: untilEnd(stream, ended) }, close: () => body.destroy() })
    })
    .once('partsLimit', refuseContent)
    .once('filesLimit', refuseContent)
    .once('fieldsLimit', refuseContent)
    .on('error', refuse)
    .once('finish', () => {
      end()
      if (file === undefined) refuseContent()
    })
  body.once('error', refuse).pipe(parser)
  ended.catch(() => {})
  return found.catch((error: unknown) => {
    body.destroy()
    throw error
  })
}

const CONTENT = 'A form must have one file, and no other field.'

function parserOf(contentType: string): BusboyInstance {
  const refused = (cause?: unknown) =>
    new Problem('media_type_unsupported', {
      detail: 'This route takes multipart/form-data with a boundary, as browsers send the form of a page.',
      cause,
    })
  if (!/^multipart\/form-data\s*;/i.test(contentType)) throw refused()
  try {
    return new Busboy({ headers: { 'content-type': contentType }, limits: LIMITS })
  } catch (cause) {
    throw refused(cause)
  }
}

async function* untilEnd(file: Readable, ended: Promise<void>): AsyncGenerator<Uint8Array> {
  yield* file
  await ended
}
