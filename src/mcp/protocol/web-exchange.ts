/** Converts requests of Node.js to those of the Fetch standard, which SDK 2.x takes, and its responses back. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { onClose } from '../../infra/response-close.ts'

/** A request without its body, which has been read. It is aborted if the client disconnects before the response has ended. */
export function webRequestOf({ headers }: IncomingMessage, response: ServerResponse): Request {
  const gone = new AbortController()
  onClose(response, () => {
    if (!response.writableFinished) gone.abort()
  })
  const fields = Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)])
  // Nothing reads the address.
  return new Request('http://localhost/', { method: 'POST', headers: fields, signal: gone.signal })
}

/** Writes a stream of events as it comes, and any other response in one piece. Returns when the client has it, or has disconnected. */
export async function writeWebResponse(answer: Response, response: ServerResponse): Promise<void> {
  const headers = Object.fromEntries(answer.headers)
  if (answer.body !== null && headers['content-type'] === 'text/event-stream') {
    response.writeHead(answer.status, headers)
    await pipeline(Readable.fromWeb(answer.body as Parameters<typeof Readable.fromWeb>[0]), response).catch(
      () => {},
    )
    return
  }
  const text = await answer.text()
  response.writeHead(answer.status, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text)
}
