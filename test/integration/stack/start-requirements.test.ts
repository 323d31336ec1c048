/** Processes refuse to start without the master key and name the missing setting. */

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { expect, inject, test } from 'vitest'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { Ports } from '../../../stack/ports.ts'

interface Ended {
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
}

/** Starts the process with another master key; ends it if it starts all the same. */
async function startProcess(path: string, key: string | undefined): Promise<Ended> {
  const port = await new Ports({ remembered: {}, any: true }).take('api', 0)
  const { TENON_MASTER_KEY: _, ...env } = { ...process.env, ...inject('tenon').env }
  const settings = { ...env, TENON_PORT: String(port), ...(key !== undefined && { TENON_MASTER_KEY: key }) }
  return new Promise((done) =>
    execFile(process.execPath, [path], { env: settings, timeout: 30_000 }, (error, stdout, stderr) =>
      done({ code: error ? (error.code as number | undefined) : 0, stdout, stderr }),
    ),
  )
}

test('start of worker: master key of another installation: refused with a line of its log that says what to set', async () => {
  const { worker } = await currentBuild()
  const { code, stderr } = await startProcess(worker, randomBytes(32).toString('base64'))
  expect(code).toBe(1)
  expect(JSON.parse(stderr)).toMatchObject({
    level: 60,
    faults: [
      expect.stringMatching(
        /^master_key: TENON_MASTER_KEY is not the key of this installation: .* Set the key /,
      ),
    ],
  })
})

const WRONG = 'c2hvcnQ='
test.each(['api', 'worker'] as const)(
  'start of %s: master key missing or wrong: refused with the name of the setting',
  async (name) => {
    const { [name]: path } = await currentBuild()
    for (const [key, message] of [
      [undefined, 'TENON_MASTER_KEY is missing. 32 random bytes in base64.'],
      [WRONG, 'TENON_MASTER_KEY'],
    ] as const) {
      const { code, stdout, stderr } = await startProcess(path, key)
      expect({ key, code, stdout }).toEqual({ key, code: 1, stdout: '' })
      const { process, level, msg } = JSON.parse(stderr)
      expect([process, level]).toEqual([name, 60])
      expect(msg).toMatch(/^The configuration is not valid:\n {2}TENON_MASTER_KEY [^\n]+$/)
      expect(msg).toContain(message)
      expect(stderr).not.toContain(WRONG)
    }
  },
)
