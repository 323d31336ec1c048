/** The search for one file in a tar archive that streams by. */

import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { watchTar } from '../../../src/backup/postgres/tar-member.ts'
import { randomOf } from '../../support/random.ts'

test('tar archive: cut anywhere: the wanted file is found among others, and the archive is passed on unchanged', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-tar-'))
  try {
    const sizes = { empty: 0, block: 512, backup_manifest: 1_234, large: 70_000 }
    const files = Object.entries(sizes).map(([name, size]) => [name, randomBytes(size)] as const)
    for (const [name, bytes] of files) await writeFile(join(folder, name), bytes)
    const archive = execFileSync('tar', ['--format=ustar', '-C', folder, '-cf', '-', ...Object.keys(sizes)])
    for (let seed = 1; seed < 30; seed += 1) {
      const random = randomOf(seed)
      async function* cut() {
        for (let at = 0; at < archive.length; ) {
          const size = 1 + random(seed % 2 === 0 ? 700 : 20_000)
          yield archive.subarray(at, at + size)
          at += size
        }
      }
      for (const [name, bytes] of files.filter((one) => one[1].length > 0)) {
        const found: Buffer[] = []
        const passed: Buffer[] = []
        for await (const chunk of watchTar(cut(), name, (member) => found.push(member))) passed.push(chunk)
        expect(Buffer.concat(passed).equals(archive)).toBe(true)
        expect(found.map((one) => one.equals(bytes))).toEqual([true])
      }
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
