/** The format of archives: readable by tar, and written and read in memory that does not grow with them. */

import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { keptAwake } from '../../../../src/features/archives/export-archive.ts'
import { HEAD } from '../../../../src/features/archives/format/layout.ts'
import { openArchive, readLines } from '../../../../src/features/archives/format/reader.ts'
import { readTar, tarHeader } from '../../../../src/features/archives/format/tar.ts'
import { ArchiveWriter } from '../../../../src/features/archives/format/writer.ts'
import { packed, unpacked } from '../../../../src/features/archives/format/zstd.ts'
import { ARCHIVE_LIMITS } from '../../../../src/features/archives/limits.ts'
import { gatherMissing } from '../../../../src/features/archives/part.ts'

const ORIGIN = { url: 'http://a', tenant_id: 'ten', workspace_id: 'ws', name: 'n', slug: 's', bucket: null }
const HEAD_OF_ALL = Buffer.from(
  JSON.stringify({
    ...{ format: 'tenon-archive', version: 1, kind: 'workspace', exported_at: '2026-01-01T00:00:00Z' },
    origin: ORIGIN,
  }),
)

async function* archiveOf(documents: AsyncIterable<object>): AsyncGenerator<Uint8Array> {
  const writer = new ArchiveWriter()
  yield* writer.small(HEAD, HEAD_OF_ALL)
  yield* writer.lines('documents/notes', documents)
  yield* writer.end()
}

async function gather(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all = []
  for await (const chunk of chunks) all.push(chunk)
  return Buffer.concat(all)
}

describe('archive', () => {
  test('of 50,000 documents: written and read at once: at no time are more than some parts on the way', async () => {
    const count = 50_000
    let [written, read, ahead, bytes] = [0, 0, 0, 0]
    const documents = async function* () {
      for (let n = 0; n < count; n++) {
        written += 1
        ahead = Math.max(ahead, written - read)
        // As random as can be: what is on the way is bounded by its compressed size.
        const text = Array.from({ length: 8 }, (_, part) => hash('sha512', `${n}/${part}`, 'base64')).join('')
        bytes += text.length
        yield { n, text }
      }
    }
    const { members } = await openArchive(unpacked(packed(archiveOf(documents()))))
    for await (const member of members) for await (const _ of readLines(member)) read += 1
    expect(read).toBe(count)
    const perPart = ARCHIVE_LIMITS.partBytes / (bytes / count)
    expect([bytes > ARCHIVE_LIMITS.partBytes * 8, ahead < perPart * 3]).toEqual([true, true])
  })

  test('of more short lines than a member has: written: in further members, which are read', async () => {
    const count = ARCHIVE_LIMITS.partLinesMax + 1
    const documents = async function* () {
      for (let n = 0; n < count; n++) yield {}
    }
    const { members } = await openArchive(archiveOf(documents()))
    const found: number[] = []
    for await (const member of members) {
      let lines = 0
      for await (const _ of readLines(member)) lines += 1
      found.push(lines)
    }
    expect(found).toEqual([ARCHIVE_LIMITS.partLinesMax, 1])
  })

  test('member of more lines than one has: read without its lines: refused', async () => {
    const writer = new ArchiveWriter()
    const content = Buffer.alloc(ARCHIVE_LIMITS.partLinesMax * 2 + 2, '0\n')
    const { members } = await openArchive(
      (async function* () {
        yield* writer.small(HEAD, HEAD_OF_ALL)
        yield* writer.small('users/000001.ndjson', content)
        yield* writer.end()
      })(),
    )
    const readAll = async () => {
      for await (const _ of members);
    }
    await expect(readAll()).rejects.toThrow(/users\/000001\.ndjson.*more than 100000 lines/)
  })

  test('things to set by hand: more than are listed: the rest is counted', () => {
    const missing = gatherMissing()
    for (let n = 0; n < ARCHIVE_LIMITS.missingMax + 7; n++) missing.tell(`secret ${n}`)
    expect([missing.list().length, missing.list().at(-1)]).toEqual([
      ARCHIVE_LIMITS.missingMax + 1,
      '7 more things, which are not listed',
    ])
  })

  test('read by tar: its members in their order', async () => {
    const documents = async function* () {
      yield { n: 1 }
    }
    const { stdout, status } = spawnSync('tar', ['-tf', '-'], { input: await gather(archiveOf(documents())) })
    expect([status, stdout.toString().trim().split('\n')]).toEqual([
      0,
      [HEAD, 'documents/notes/000001.ndjson', 'manifest.ndjson'],
    ])
  })

  test('member with a name of more than 100 characters: read as it was written, by tar, too', async () => {
    const folder = `workspaces/${'s'.repeat(40)}/`
    const name = `${folder}documents/${'c'.repeat(63)}/000001.ndjson`
    const archive = async function* () {
      const writer = new ArchiveWriter()
      yield* writer.small(HEAD, HEAD_OF_ALL)
      writer.enter(folder)
      yield* writer.small(name.slice(folder.length), Buffer.from('{}\n'))
      writer.enter('')
      yield* writer.end()
    }
    const { members } = await openArchive(archive())
    const found = []
    for await (const member of members) found.push([member.name, member.workspace, member.folder])
    expect(found).toEqual([[name, 's'.repeat(40), 'documents']])
    const { stdout } = spawnSync('tar', ['-tf', '-'], { input: await gather(archive()) })
    expect(stdout.toString().trim().split('\n')).toEqual([HEAD, name, 'manifest.ndjson'])
  })

  test('snapshot of an export: asked between chunks, and no more often than it has to be', async () => {
    const chunks = async function* () {
      for (const text of ['a', 'b', 'c']) yield Buffer.from(text)
    }
    const asked = async (everyMs?: number) => {
      const order: string[] = []
      const ask = async () => order.push('asked')
      for await (const chunk of keptAwake(chunks(), ask, everyMs)) order.push(Buffer.from(chunk).toString())
      return order
    }
    expect(await asked(0)).toEqual(['a', 'asked', 'b', 'asked', 'c', 'asked'])
    expect(await asked()).toEqual(['a', 'b', 'c'])
  })

  test.each([8_589_934_591, 8_589_934_592, 109_951_162_777_600])(
    'member of %i bytes: its header: read by tar as it was written',
    (size) => {
      // Without the content tar prints the member, and then says that the archive is cut off.
      const { stdout } = spawnSync('tar', ['-tvf', '-'], { input: tarHeader('objects/000001/000001', size) })
      expect(stdout.toString().split(/\s+/)).toEqual(
        expect.arrayContaining([String(size), 'objects/000001/000001']),
      )
    },
  )

  test.each([0, 1, 511, 512, 8_589_934_591, 8_589_934_592, 2 ** 50])(
    'member of %i bytes: its header: read as it was written',
    async (size) => {
      const files = readTar(
        (async function* () {
          yield tarHeader('a', size)
        })(),
      )
      expect((await files.next()).value).toMatchObject({ name: 'a', size })
    },
  )
})
