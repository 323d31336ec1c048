/** An export: a query's pages, one after the other, as lines of JSON. It holds one page at a time. */

import type { ByteReply } from '../../../core/bytes.ts'
import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import type { Shown } from '../fields.ts'
import { type Asked, pageOf } from '../page.ts'

type Query = Omit<Asked, 'size' | 'after'>

/**
 * The first page is read before anything is sent, so that what is wrong with the query is told as such.
 * @throws Problem as a list does
 */
export async function exportLines(scope: WorkspaceScope, name: string, query: Query): Promise<ByteReply> {
  const pieces = piecesOf((after, size) => pageOf(scope, name, { ...query, after, size }))
  const first = await pieces.next()
  return {
    status: 200,
    headers: {
      'content-type': 'application/x-ndjson',
      'content-disposition': `attachment; filename="${name}.ndjson"`,
      'cache-control': 'private, no-store',
    },
    chunks: (async function* () {
      if (first.done !== true) yield first.value
      yield* pieces
    })(),
  }
}

type Read = (after: string | undefined, size: number) => ReturnType<typeof pageOf>

/** Texts of some tens of kilobytes: a slow reader is to be seen taking one. */
async function* piecesOf(read: Read): AsyncGenerator<Buffer> {
  let size: number = LIMITS.exportFirstRows
  let after: string | undefined
  do {
    const { data, page } = await fitting(size, (rows) => read(after, rows))
    let bytes = 0
    for (const piece of packed(data)) {
      bytes += piece.byteLength
      yield piece
    }
    after = page.next ?? undefined
    size = nextSize(data.length, bytes)
  } while (after !== undefined)
}

/** Documents may be large: a page of too many bytes is asked for again with fewer of them. */
async function fitting<T>(size: number, read: (size: number) => Promise<T>): Promise<T> {
  try {
    return await read(size)
  } catch (error) {
    if (size === 1 || !(error instanceof Problem && error.code === 'output_too_large')) throw error
    return fitting(Math.ceil(size / 2), read)
  }
}

/** As many as came to about a page's bytes, if the next ones are like the last. */
function nextSize(rows: number, bytes: number): number {
  const fit = Math.floor((rows * LIMITS.exportPageBytes) / Math.max(bytes, 1))
  return Math.max(1, Math.min(fit, LIMITS.exportRowsMax))
}

function* packed(documents: readonly Shown[]): Generator<Buffer> {
  let text = ''
  for (const document of documents) {
    text += `${JSON.stringify(document)}\n`
    if (text.length < LIMITS.exportPieceChars) continue
    yield Buffer.from(text)
    text = ''
  }
  if (text !== '') yield Buffer.from(text)
}
