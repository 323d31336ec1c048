/** Checks that links of pages lead to files and headings that exist, and that pages name settings and metrics that exist. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { SECRET_SETTINGS } from '../../src/infra/config.ts'
import { exportedName, METRICS, type MetricName } from '../../src/infra/metrics/catalogue.ts'

const FOLDERS = ['docs', 'examples', 'flows-dsl', 'test']
const PAGES = [
  ...['README.md', 'CONTRIBUTING.md'],
  ...FOLDERS.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md') && !name.includes('node_modules'))
      .map((name) => join(folder, name)),
  ),
]
const textOf = (page: string) => readFileSync(page, 'utf8')
const withoutBlocks = (page: string) => textOf(page).replaceAll(/```.*?```/gs, '')

/** The anchor that GitHub gives a heading. */
const anchorOf = (heading: string) =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\- _]/gu, '')
    .trim()
    .replaceAll(' ', '-')

function anchorsOf(page: string): string[] {
  const text = withoutBlocks(page)
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading))
  return [...headings, ...[...text.matchAll(/\bid="([^"]+)"/g)].map(([, id = '']) => id)]
}

function isBroken(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? page : join(dirname(page), path)
  if (!existsSync(target)) return true
  return anchor !== undefined && target.endsWith('.md') && !anchorsOf(target).includes(anchor)
}

test('links of pages: to files and headings of the repository: lead there', () => {
  const links = PAGES.flatMap((page) =>
    [...withoutBlocks(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => ({ page, link })),
  ).filter(({ link }) => !/^[a-z]+:|\]\(/.test(link))
  expect(links.length).toBeGreaterThan(800)
  expect(links.filter(({ page, link }) => isBroken(page, link))).toEqual([])
})

/** Files that read or set variables: the program, its servers, containers, tests and benchmarks. */
const SOURCES = ['src', 'stack', 'test', 'bench', 'examples', 'flows-dsl'].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|mjs|tsx)$/.test(name) && !name.includes('node_modules'))
    .map((name) => join(folder, name)),
)

test('settings: named by a page: are read by the program or its containers', () => {
  const read = [
    ...SOURCES.filter((name) => !name.endsWith('links.test.ts')),
    'docker-compose.yml',
    'Dockerfile',
  ]
    .map(textOf)
    .join('\n')
  const known = new Set([
    ...(read.match(/\b(TENON|TEMPORAL|S3|DATABASE|OTEL|SMTP)_[A-Z0-9_]*[A-Z0-9]\b/g) ?? []),
    ...SECRET_SETTINGS.map((name) => `${name}_FILE`),
  ])
  const named = PAGES.flatMap((page) =>
    (
      textOf(page).match(/\b(TENON|TEMPORAL|S3|DATABASE|OTEL|SMTP)_[A-Z0-9_]*[A-Z0-9]\b(?!_?[*…])/g) ?? []
    ).map((name) => ({ page, name })),
  )
  expect(named.length).toBeGreaterThan(100)
  expect(named.filter(({ name }) => !known.has(name))).toEqual([])
})

test('metrics: named by a page: are exported', () => {
  const exported = (Object.keys(METRICS) as MetricName[]).map(exportedName)
  // Roles and schemas of the database begin as metrics do.
  const ofDatabase = readFileSync('src/infra/postgres/roles.sql', 'utf8')
  const named = PAGES.flatMap((page) =>
    [...textOf(page).matchAll(/`(tenon_\w+?)(?:_(?:bucket|sum|count))?[`{]/g)].map(([, name = '']) => ({
      page,
      name,
    })),
  ).filter(({ name }) => !ofDatabase.includes(name))
  expect(named.length).toBeGreaterThan(50)
  expect(named.filter(({ name }) => !exported.includes(name))).toEqual([])
})
