/** Uploads that go on where they broke off, by tus 1.0 (docs/objects.md, "Large uploads"). */

import { TenonError } from './errors.ts'
import { type CallOptions, pause, pauseAfter, type Transport } from './transport.ts'

export interface UploadOptions extends CallOptions {
  readonly bucket: string
  readonly key: string
  /** Default: the type of the blob, or `application/octet-stream`. */
  readonly contentType?: string
  /** Called after each part, with bytes. */
  readonly onProgress?: (progress: { readonly sent: number; readonly total: number }) => void
  /** Called once the upload has an address. Keep it to go on later with {@link resume}. */
  readonly onAddress?: (address: string) => void
  /** The address of an upload that broke off. */
  readonly resume?: string
  /** Bytes of a part, after which progress is told. Default: 8 MiB. */
  readonly partBytes?: number
}

const TUS = { 'tus-resumable': '1.0.0' }
/** A part that does not arrive is sent again so often, after it was asked how much has come. */
const PART_ATTEMPTS = 5
const PART_BYTES = 8 * 1_048_576
/** A slow line takes minutes for one. */
const PART_MS = 600_000

/**
 * Sends a file in parts, each of which is asked for again if its connection breaks. The object is there once the last byte is.
 * @throws TenonError; the reason of `signal` if it is cancelled, after which the upload can be resumed for seven days
 */
export async function upload(transport: Transport, file: Blob, options: UploadOptions): Promise<void> {
  const { signal, onProgress, onAddress, partBytes = PART_BYTES } = options
  const address = options.resume ?? (await begin(transport, file, options))
  onAddress?.(address)
  let offset = options.resume === undefined ? 0 : await offsetOf(transport, address, options)
  onProgress?.({ sent: offset, total: file.size })
  for (let failures = 0; offset < file.size; ) {
    signal?.throwIfAborted()
    try {
      offset = await sendPart(
        transport,
        { address, offset, part: file.slice(offset, offset + partBytes) },
        options,
      )
      failures = 0
      onProgress?.({ sent: offset, total: file.size })
    } catch (error) {
      signal?.throwIfAborted()
      failures += 1
      if (failures >= PART_ATTEMPTS || !mayGoOn(error)) throw error
      await pause(pauseAfter(failures + 1), signal)
      offset = await offsetOf(transport, address, options)
    }
  }
}

/** A lost connection, a server that is stopping, and another sender of the same upload. */
const mayGoOn = (error: unknown): boolean =>
  error instanceof TenonError &&
  (error.status === 0 ||
    error.status === 429 ||
    error.status >= 500 ||
    error.code === 'upload_offset_differs')

async function begin(
  transport: Transport,
  file: Blob,
  { bucket, key, contentType, ...options }: UploadOptions,
): Promise<string> {
  const type = contentType ?? (file.type || 'application/octet-stream')
  const metadata = Object.entries({ bucket, key, 'content-type': type }).map(
    ([name, value]) => `${name} ${base64(value)}`,
  )
  const headers = { ...TUS, 'upload-length': String(file.size), 'upload-metadata': metadata.join() }
  const sent = { method: 'POST', path: '/v1/uploads', headers, isRepeatable: false }
  const location = await transport.send(sent, callOptions(options), async (response) =>
    response.headers.get('location'),
  )
  if (location === null)
    throw new TenonError({ code: 'invalid_response', status: 201, detail: 'The upload has no address.' })
  return new URL(location, transport.url).pathname
}

const numberIn = async (response: Response): Promise<number> => Number(response.headers.get('upload-offset'))

const offsetOf = (transport: Transport, address: string, options: CallOptions): Promise<number> =>
  transport.send(
    { method: 'HEAD', path: address, headers: TUS, isRepeatable: true },
    callOptions(options),
    numberIn,
  )

function sendPart(
  transport: Transport,
  { address, offset, part }: { readonly address: string; readonly offset: number; readonly part: Blob },
  options: CallOptions,
): Promise<number> {
  const headers = {
    ...TUS,
    'upload-offset': String(offset),
    'content-type': 'application/offset+octet-stream',
  }
  // Not repeated by itself: how much of it has come is asked first.
  const sent = { method: 'PATCH', path: address, headers, body: part, isRepeatable: false }
  return transport.send(sent, { timeoutMs: PART_MS, ...callOptions(options) }, numberIn)
}

const callOptions = ({ signal, timeoutMs, headers }: CallOptions): CallOptions => ({
  ...(signal !== undefined && { signal }),
  ...(timeoutMs !== undefined && { timeoutMs }),
  ...(headers !== undefined && { headers }),
})

/** `btoa` takes bytes as characters; keys have any. */
const base64 = (text: string): string => btoa(String.fromCharCode(...new TextEncoder().encode(text)))
