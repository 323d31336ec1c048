/** Makes every image that Dockerfile and docker-compose.yml name, under that name, and then the image of the platform itself. */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { binary, execute } from '../../../stack/binaries.mjs'
import { NODE, PROJECT_DIR, step } from '../../../stack/project.mjs'
import { HOME, podman, tryPodman } from './engine.ts'
import { temporalPrograms } from './temporal-programs.ts'

const RECIPES = join(import.meta.dirname, 'images')
const CONTAINERFILE = join(RECIPES, 'Containerfile')
export const PLATFORM = 'tenon:local'
/** A PostgreSQL that the platform refuses. */
export const TOO_OLD = 'localhost/postgres:15'
const DEBIAN = 'docker.io/library/debian:bookworm-slim'

/** The stage of the Containerfile for each image, by its name without registry and tag. */
const STAGES: Readonly<Record<string, string>> = {
  'denoland/deno': 'deno',
  node: 'node',
  postgres: 'postgres',
  'temporalio/admin-tools': 'admin-tools',
  'temporalio/server': 'server',
  'temporalio/ui': 'ui',
  'chrislusf/seaweedfs': 'seaweedfs',
  'valkey/valkey': 'valkey',
}

/** The names of images in both files, with their tags. */
function namedImages(): ReadonlyMap<string, string> {
  const read = (name: string) => readFileSync(join(PROJECT_DIR, name), 'utf8')
  const found = [
    ...read('docker-compose.yml').matchAll(/^ +image: ([^:\s]+):(\S+)/gm),
    ...read('Dockerfile').matchAll(/^FROM ([^:\s]+):(\S+)/gm),
  ]
  return new Map(found.map(([, name = '', tag = '']) => [name, tag]))
}

export async function prepareImages(): Promise<void> {
  const named = namedImages()
  if (!(await exists(DEBIAN))) await step('making an image of Debian', makeDebian)
  const tagOf = (name: string) => named.get(name) ?? ''
  const temporal = await step('building Temporal', () =>
    temporalPrograms(tagOf('temporalio/server'), tagOf('temporalio/ui')),
  )
  const programs = await programPaths()
  const recipe = createHash('sha256')
    .update(JSON.stringify([temporal, Object.entries(programs)]))
    .update(await execute('sh', ['-c', 'cat "$0"/*', RECIPES]))
    .digest('hex')
  const missing: (readonly [string, string])[] = []
  const wanted = Object.entries(STAGES).map(
    ([name, stage]) =>
      [`docker.io/${name.includes('/') ? '' : 'library/'}${name}:${tagOf(name)}`, stage] as const,
  )
  for (const [image, stage] of [...wanted, [TOO_OLD, 'postgres-15'] as const])
    if (!(await exists(image, recipe))) missing.push([image, stage])
  if (missing.length > 0)
    await step('making images of servers', () => makeStages(missing, recipe, temporal, programs))
  await step('building the image of the platform', buildPlatform)
}

/** The stage that builds has a name, so that it is not removed with what earlier builds have left. */
async function buildPlatform(): Promise<void> {
  const build = ['build', '--network=host', '--layers']
  await podman(...build, '--target', 'build', '-t', 'localhost/tenon-build:local', PROJECT_DIR)
  await podman(...build, '-t', PLATFORM, PROJECT_DIR)
  await podman('image', 'prune', '--force')
}

/** @param recipe of which it must be made */
async function exists(image: string, recipe?: string): Promise<boolean> {
  const format = '{{ index .Labels "recipe" }}'
  const { code, stdout } = await tryPodman('image', 'inspect', '--format', format, image)
  return code === 0 && (recipe === undefined || stdout.trim() === recipe)
}

async function makeDebian(): Promise<void> {
  const folder = await mkdtemp(join(HOME, 'debian-'))
  try {
    await execute('debootstrap', ['--variant=minbase', 'bookworm', folder, await debianMirror()])
    const unused = [
      'var/cache/apt/archives',
      'var/lib/apt/lists',
      'usr/share/doc',
      'usr/share/man',
      'usr/share/locale',
    ]
    await execute('rm', ['-rf', ...unused.map((path) => join(folder, path))])
    await execute('mkdir', [
      '-p',
      join(folder, 'var/cache/apt/archives/partial'),
      join(folder, 'var/lib/apt/lists/partial'),
    ])
    const tar = join(HOME, 'debian.tar')
    await execute('tar', ['-C', folder, '-cf', tar, '.'])
    await podman('import', '--change', 'CMD ["bash"]', tar, DEBIAN)
    await rm(tar)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** From where this machine installs its own packages. */
async function debianMirror(): Promise<string> {
  const text = await execute('sh', [
    '-c',
    'cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true',
  ])
  const [, mirror] = /^(?:URIs:|deb(?: \[.*?\])?) *(\S*\/debian\/?)(?:\s|$)/m.exec(text) ?? []
  if (mirror === undefined)
    throw new Error('No mirror of Debian is in /etc/apt, of which an image could be made.')
  return mirror
}

async function programPaths() {
  const [postgres, valkey, weed, deno] = await Promise.all(
    (['postgres', 'valkey', 'weed', 'deno'] as const).map((name) => binary(name)),
  )
  return {
    // With its libraries, three folders above.
    postgres: join(dirname(postgres ?? ''), '../../..'),
    'valkey-server': valkey ?? '',
    weed: weed ?? '',
    deno: deno ?? '',
    node: NODE,
    npm: join(dirname(await npmCommand()), '..'),
    'certificates.pem': process.env['NODE_EXTRA_CA_CERTS'] ?? '/dev/null',
  }
}

const npmCommand = async (): Promise<string> =>
  (await execute('sh', ['-c', 'readlink -f "$(command -v npm)"'])).trim()

async function makeStages(
  missing: readonly (readonly [string, string])[],
  recipe: string,
  temporal: string,
  programs: Readonly<Record<string, string>>,
): Promise<void> {
  const context = await mkdtemp(join(tmpdir(), 'tenon-images-'))
  try {
    await cp(temporal, context, { recursive: true })
    await cp(RECIPES, context, { recursive: true })
    for (const [name, path] of Object.entries(programs))
      await cp(path, join(context, name), { recursive: true, dereference: true })
    for (const [image, stage] of missing)
      await podman(
        ...['build', '--network=host', '--layers', '--label', `recipe=${recipe}`],
        ...['--target', stage, '-t', image, '-f', CONTAINERFILE, context],
      )
  } finally {
    await rm(context, { recursive: true, force: true })
  }
}
