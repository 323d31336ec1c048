/**
 * The example examples/upload in Chromium: a large file goes up by tus through restarts of the API, and the page shows how much has come.
 * `npm run test:soak -- uploads`, with TENON_UPLOAD_BYTES for another size.
 */

import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { hasChromium, launchChromium, noticeWithoutChromium } from '../../support/clients/chromium.ts'
import { createTestWorkspaceWithStorage, eventually, userToken } from '../../support/fixtures/tenants.ts'
import { type ApiProcess, startApi } from '../../support/stack/api-process.ts'
import { bucketOf, configure } from '../../support/stack/workspace-settings.ts'

const BYTES = Number(process.env['TENON_UPLOAD_BYTES'] ?? 64 * 1_048_576)
/** Parts of the file after which the API is killed. */
const KILLED_AFTER = [0.2, 0.6]
const CHUNK = 1_048_576

const ended: (() => Promise<unknown>)[] = []
afterAll(async () => {
  for (const end of ended.reverse()) await end()
})

/** A file of random bytes. @returns its digest */
async function writeRandom(path: string): Promise<string> {
  const [file, hash] = [createWriteStream(path), createHash('sha256')]
  for (let left = BYTES; left > 0; left -= CHUNK) {
    const chunk = randomBytes(Math.min(CHUNK, left))
    hash.update(chunk)
    if (!file.write(chunk)) await once(file, 'drain')
  }
  file.end()
  await once(file, 'close')
  return hash.digest('hex')
}

async function servePage(): Promise<string> {
  const html = await readFile('examples/upload/index.html')
  const server = createServer(
    (_request, reply) => void reply.setHeader('content-type', 'text/html').end(html),
  )
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  ended.push(async () => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

noticeWithoutChromium('the page that uploads a large file')
test.runIf(hasChromium)(
  'page that uploads a large file while the API is killed and started again: shows how much has come, and the object has all bytes',
  async () => {
    const workspace = await createTestWorkspaceWithStorage()
    const bucket = await bucketOf(workspace)
    await configure(workspace, { objects: { user: { write: ['inbox/{user.id}/'] } } })
    const token = (await userToken(workspace, 'mia'))['authorization']?.replace('Bearer ', '') ?? ''
    const dir = await mkdtemp(join(tmpdir(), 'tenon-upload-'))
    ended.push(() => rm(dir, { recursive: true }))
    const digest = await writeRandom(join(dir, 'film.bin'))
    let api: ApiProcess = await startApi({})
    ended.push(() => api.stop())
    const port = new URL(api.at.url).port
    const browser = await launchChromium()
    ended.push(() => browser.close())
    const page = await browser.newPage()
    const where = new URLSearchParams({ url: api.at.url, bucket, folder: 'inbox/mia/', token })
    await page.goto(`${await servePage()}#${where}`)
    const beganMs = performance.now()
    await page.getByLabel('File').setInputFiles(join(dir, 'film.bin'))
    const progress = async () => Number(await page.getByLabel('Progress').getAttribute('value'))
    const shown: number[] = []
    const until = async (part: number) =>
      eventually(async () => {
        shown.push(await progress())
        return (shown.at(-1) ?? 0) >= part || undefined
      }, 900_000)
    for (const part of KILLED_AFTER) {
      await until(part)
      const exited = once(api.process, 'exit')
      api.process.kill('SIGKILL')
      await exited
      await page.getByText('The connection is broken.').waitFor({ timeout: 60_000 })
      api = await startApi({ TENON_PORT: port })
    }
    await page.getByText('Stored.').waitFor({ timeout: 900_000 })
    const seconds = (performance.now() - beganMs) / 1_000
    console.log(
      `${BYTES} bytes with ${KILLED_AFTER.length} restarts in ${seconds.toFixed(1)} s, ${new Set(shown).size} different values of the progress bar`,
    )
    expect(new Set(shown).size).toBeGreaterThan(KILLED_AFTER.length)
    const got = await fetch(`${api.at.url}/v1/objects/${bucket}/inbox/mia/film.bin`, {
      headers: workspace.service,
    })
    const hash = createHash('sha256')
    for await (const chunk of got.body ?? []) hash.update(chunk)
    expect([got.status, hash.digest('hex')]).toEqual([200, digest])
  },
  1_800_000,
)
