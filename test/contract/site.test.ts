/** The site of the documentation: every page is in it, every link leads somewhere, and what is served is the same as what is written. */

import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, posix, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { OPERATIONS } from '../../client/src/generated/operations.ts'
import { currentSite } from '../../src/cli/stack/site.ts'
import { CONTENTS } from '../../src/site/contents.ts'
import { missing, orphans, readPages } from '../../src/site/sources.ts'
import { call } from '../support/fixtures/tenants.ts'

let files: ReadonlyMap<string, string>
beforeAll(async () => {
  const folder = await currentSite()
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
  files = new Map(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
})
const htmlPages = () => [...files].filter(([name]) => name.endsWith('.html'))

test('contents: have every page of docs once, and no other', () => {
  expect(orphans('.')).toEqual([])
  expect(missing('.')).toEqual([])
  const listed = CONTENTS.flatMap(({ pages }) => pages)
  expect(listed.length).toBe(new Set(listed).size)
})

test('pages of folders: are linked from the page of their folder', () => {
  const listed = new Set(CONTENTS.flatMap(({ pages }) => pages))
  const others = readPages('.').filter(({ path }) => !htmlIsListed(path, listed))
  expect(others.length).toBeGreaterThan(50)
  const unlinked = others.filter(({ path }) => {
    const text = files.get(`${posix.dirname(path)}/index.md`) ?? ''
    return !text.includes(`](${posix.basename(path)}.md`)
  })
  expect(unlinked.map(({ path }) => path)).toEqual([])
})

const htmlIsListed = (path: string, listed: ReadonlySet<string>) =>
  [`docs/${path}.md`, `docs/${path.replace(/index$/, 'README')}.md`].some((file) => listed.has(file)) ||
  /^(examples|contributing)\/|^(flow-language|flow-expressions|changelog)$/.test(path)

test('links of all pages: lead to a page of the site, and to a heading of it', () => {
  const anchors = new Map(
    htmlPages().map(([name, html]) => [
      name,
      new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id)),
    ]),
  )
  const links = htmlPages().flatMap(([name, html]) =>
    [...html.matchAll(/ (?:href|src)="([^"]*)"/g)].map(([, link = '']) => ({ name, link })),
  )
  expect(links.length).toBeGreaterThan(20_000)
  const dead = links.filter(({ name, link }) => {
    if (/^https?:/.test(link)) return false
    const [path = '', anchor] = link.split('#')
    const target = path === '' ? name : posix.join(dirname(name), path)
    if (!files.has(target)) return true
    return anchor !== undefined && !anchors.get(target)?.has(anchor)
  })
  expect(dead).toEqual([])
})

test('links in Markdown: lead to Markdown of the site, or to a generated file', () => {
  const dead = [...files].flatMap(([name, text]) =>
    !name.endsWith('.md')
      ? []
      : [
          ...text
            .replaceAll(/^```[\s\S]*?^```/gm, '')
            .replaceAll(/`[^`\n]*`/g, '')
            .matchAll(/\]\(([^)\s#]+)[^)]*\)/g),
        ]
          .map(([, link = '']) => link)
          .filter((link) => !/^[a-z]+:/.test(link) && !files.has(posix.join(dirname(name), link)))
          .map((link) => ({ name, link })),
  )
  expect(dead).toEqual([])
})

test('each page: has its Markdown, a title and a sentence, and stands in the list for language models', () => {
  const list = files.get('llms.txt') ?? ''
  expect(htmlPages().length).toBeGreaterThan(400)
  const wrong = htmlPages().filter(([name, html]) => {
    const markdown = name.replace(/html$/, 'md')
    const listed = new RegExp(
      `^- \\[[^\\n]+\\]\\(/docs/${markdown.replaceAll('.', '\\.')}\\): \\S.{10,}$`,
      'm',
    )
    return !files.has(markdown) || !listed.test(list) || !/<title>[^<]{3,}<\/title>/.test(html)
  })
  expect(wrong.map(([name]) => name)).toEqual([])
})

test('pages of operations: each shows a call of the client, which its types accept', async () => {
  const calls = [...files].flatMap(([name, text]) =>
    /^api\/.*\.md$/.test(name)
      ? [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, block = '']) => `{\n${block}}\n`)
      : [],
  )
  expect(calls.length).toBe(Object.values(OPERATIONS).flatMap(Object.keys).length)
  const root = resolve('.')
  const dir = await mkdtemp(join(tmpdir(), 'tenon-site-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  const head = `import { createClient } from '${root}/client/src/index.ts'\nconst tenon = createClient({ url: '', apikey: '' })\n`
  const compilerOptions = {
    ...{ target: 'es2023', module: 'nodenext', lib: ['es2024'], types: ['node'], strict: true, noEmit: true },
    ...{ typeRoots: [`${root}/node_modules/@types`], skipLibCheck: true, allowImportingTsExtensions: true },
  }
  await writeFile(join(dir, 'package.json'), '{"type": "module"}')
  await writeFile(join(dir, 'calls.ts'), `${head}${calls.join('')}export {}\n`)
  await writeFile(join(dir, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['calls.ts'] }))
  const found = await promisify(execFile)('node_modules/.bin/tsc', ['-p', dir]).then(
    () => '',
    ({ stdout }: { stdout: string }) => stdout,
  )
  expect(found).toBe('')
})

test('pages: have no script or style of their own, and load nothing from elsewhere', () => {
  const wrong = htmlPages().filter(([, html]) =>
    /<style|<script(?! src="[./]*assets\/site\.js" defer><\/script>)| style="| on\w+="|<(img|iframe|link|script)[^>]+"https?:/.test(
      html.replaceAll(/<pre[\s\S]*?<\/pre>/g, ''),
    ),
  )
  expect(wrong.map(([name]) => name)).toEqual([])
})

test('API: serves pages, their Markdown and the list, under a policy without inline scripts', async () => {
  await currentSite()
  for (const [path, type, name] of [
    ['/docs/', 'text/html; charset=utf-8', 'index.html'],
    ['/docs/queries', 'text/html; charset=utf-8', 'queries.html'],
    ['/docs/queries.html', 'text/html; charset=utf-8', 'queries.html'],
    ['/docs/queries.md', 'text/markdown; charset=utf-8', 'queries.md'],
    ['/docs/api/', 'text/html; charset=utf-8', 'api/index.html'],
    ['/docs/api/collection-list.md', 'text/markdown; charset=utf-8', 'api/collection-list.md'],
  ] as const) {
    const { status, headers, body } = await call('GET', path)
    expect([path, status, headers.get('content-type')?.toLowerCase()]).toEqual([path, 200, type])
    expect(body).toBe(files.get(name))
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    )
  }
})

test('API: a page that does not exist is a problem, as are paths out of the folder', async () => {
  for (const path of [
    '/docs/nothing',
    '/docs/api/nothing.md',
    '/docs/..%2f..%2fpackage.json',
    '/docs/problems/nothing',
  ]) {
    const { status, body } = await call('GET', path)
    expect([path, status, body.code]).toEqual([path, 404, 'route_not_found'])
  }
  const { status, body } = await call('GET', '/docs/problems/forbidden')
  expect([status, String(body).startsWith('forbidden (403)')]).toEqual([200, true])
})
