/** Who may import whom: docs/architecture.md, "Directions". Checked by `npm run check`. */
const only = (name, from, to, comment) => ({
  name,
  comment,
  severity: 'error',
  from: { path: from },
  to: { pathNot: to },
})

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    only(
      'language-knows-nothing-of-us',
      '^flows-dsl/(?!compile\\.ts)',
      '^flows-dsl/',
      'flows-dsl is pure; only compile.ts may read YAML',
    ),
    only('language-compiler', '^flows-dsl/compile\\.ts', '^(flows-dsl/|node_modules/yaml/)'),
    only('core-is-pure', '^src/core/', '^(src/core/|node_modules/(lru-cache|typebox|typeid-js|uuid)/)'),
    {
      name: 'platform-below-resources',
      severity: 'error',
      from: { path: '^src/platform/' },
      to: { path: '^(src/(resources|api|mcp|activities|workflows|cli)|flows-dsl|stack)/' },
    },
    {
      name: 'resources-have-no-drivers',
      comment: 'scope first: no pool, client or connection leaves src/platform',
      severity: 'error',
      from: { path: '^src/resources/' },
      to: {
        path: '^(src/(api|mcp|activities|workflows|cli)/|stack/|node_modules/(pg|ioredis|mongodb|fastify|@aws-sdk|@temporalio)/)',
      },
    },
    {
      name: 'connections-stay-in-platform',
      comment: 'the internals of scopes: features supply functions of a scope instead',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/platform/' },
      to: { path: '^src/platform/internals\\.ts$' },
    },
    {
      name: 'access-alone-opens-scopes',
      comment: 'a change of privilege happens in platform/access.ts; the API asks which kind of scope it has',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(platform/access|api/(door|audit))\\.ts$' },
      to: { path: '^src/platform/scope\\.ts$', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'doors-do-not-call-each-other',
      severity: 'error',
      from: { path: '^src/(api|mcp|activities)/' },
      to: { path: '^src/(api|mcp|activities|cli)/', pathNot: ['^src/$1/', '^src/mcp/mount\\.ts$'] },
    },
    only(
      'workflows-are-sealed',
      '^src/workflows/',
      '^(src/workflows/|flows-dsl/(?!compile)|src/core/(json|limits|problem|run|secret-handle|tenant|work|work-input)\\.ts|src/activities/contract\\.ts|node_modules/(@temporalio/(workflow|common)|@noble/hashes)/)',
      'deterministic code: no platform, no resources, no Node built-ins',
    ),
    {
      name: 'pg-only-in-platform-pg',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(platform/pg|cli/host)/' },
      to: { path: '^node_modules/pg/' },
    },
    {
      name: 'cli-speaks-http',
      comment: 'only src/cli/host knows the stack and the inside; the other verbs are clients like any other',
      severity: 'error',
      from: { path: '^src/cli/', pathNot: '^src/cli/(host/|main)' },
      to: { path: '^(stack/|src/(platform|resources|api|workflows|activities|mcp)/)' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^|/)test/' },
    tsPreCompilationDeps: false,
    parser: 'swc',
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default'] },
  },
}
