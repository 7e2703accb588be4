// Checks dashboards against the schema that Grafana publishes as the npm package @grafana/schema: TypeScript types, so
// the compiler is the validator. Each JSON becomes a constant of the schema's type, in which fields that the schema does
// not know, wrong types and wrong values of an enumeration are errors. A dashboard has to fit the oldest version of
// Grafana that the README promises and a current one.
//
//   check_dashboards.mjs --check            says "ready"
//   check_dashboards.mjs DASHBOARD.json...  exit status 1 if one does not fit

import {readFileSync} from 'node:fs';
import {basename, dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import ts from 'typescript';

const modules = join(dirname(fileURLToPath(import.meta.url)), 'node_modules');
const schemas = [
  {
    name: 'grafana-schema-10',
    index: 'dist/index.d.ts',
    dashboard: 'dist/esm/raw/dashboard/x/dashboard_types.gen',
    options: (type) => `dist/esm/raw/composable/${type.toLowerCase()}/panelcfg/x/${type}PanelCfg_types.gen`,
    prometheus: 'dist/esm/raw/composable/prometheus/dataquery/x/PrometheusDataQuery_types.gen',
  },
  {
    name: 'grafana-schema-13',
    index: 'dist/types/index.d.ts',
    dashboard: 'dist/types/raw/dashboard/x/types.gen',
    options: (type) => `dist/types/raw/composable/${type.toLowerCase()}/panelcfg/x/types.gen`,
    prometheus: null,  // No longer in the package.
  },
];
const panelTypes = {timeseries: 'TimeSeries', stat: 'Stat'};

// The schema leaves `options`, `fieldConfig.defaults.custom` and `targets` of a panel open; other types of it describe
// them. An enumeration of strings is written as its values.
function sourceOf(dashboard, schema) {
  const path = (file) => JSON.stringify(join(modules, schema.name, file));
  const lines = [
    `import type {Dashboard, Panel, RowPanel, VariableModel} from ${path(schema.dashboard)};`,
    // Grafana writes `definition`, the text of a query in its list of variables, and its schema lacks it.
    'interface Variable extends VariableModel { definition?: string }',
    'interface Whole extends Omit<Dashboard, "panels" | "templating"> { templating: {list: Variable[]} }',
    'type Json<T> = T extends string ? `${T}` : T extends (infer U)[] ? Json<U>[] :',
    '  T extends object ? {[K in keyof T]: Json<T[K]>} : T;',
  ];
  for (const type of Object.values(panelTypes)) {
    lines.push(`import type * as ${type} from ${path(schema.options(type))};`);
  }
  if (schema.prometheus !== null) {
    lines.push(`import type {PrometheusDataQuery} from ${path(schema.prometheus)};`);
  }
  const add = (type, value) => lines.push(`export const c${lines.length}: ${type} =`, JSON.stringify(value, null, 1), ';');

  const {panels, ...rest} = dashboard;
  add('Json<Whole>', rest);
  for (const panel of panels) {
    if (panel.type === 'row') {
      add('Json<RowPanel>', panel);
      continue;
    }
    add('Json<Panel>', panel);
    const type = panelTypes[panel.type];
    if (type === undefined) throw new Error(`no schema of panels of type ${panel.type} is chosen here`);
    add(`Json<Partial<${type}.Options>>`, panel.options);
    const custom = panel.fieldConfig.defaults.custom;
    if (custom !== undefined) add(`Json<Partial<${type}.FieldConfig>>`, custom);
    if (schema.prometheus !== null) panel.targets.forEach((target) => add('Json<PrometheusDataQuery>', target));
  }
  return lines.join('\n');
}

function faultsOf(file, schema) {
  const source = sourceOf(JSON.parse(readFileSync(file, 'utf8')), schema);
  const options = {
    strict: true, noEmit: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler,
    paths: {'@grafana/schema': [join(modules, schema.name, schema.index)]},  // The package imports itself.
  };
  const host = ts.createCompilerHost(options);
  const name = join(modules, `${basename(file, '.json')}.ts`);  // Beside the packages, and never written.
  const read = host.getSourceFile;
  host.getSourceFile = (path, ...more) =>
    path === name ? ts.createSourceFile(name, source, ts.ScriptTarget.ES2022) : read.call(host, path, ...more);
  const program = ts.createProgram([name], options, host);
  const lines = source.split('\n');
  return ts.getPreEmitDiagnostics(program).map((fault) => {
    const text = ts.flattenDiagnosticMessageText(fault.messageText, '\n  ');
    if (fault.file === undefined || fault.start === undefined) return text;
    const {line} = fault.file.getLineAndCharacterOfPosition(fault.start);
    return fault.file.fileName === name ? `${lines[line].trim()}: ${text}` : `${fault.file.fileName}: ${text}`;
  });
}

const files = process.argv.slice(2);
if (files[0] === '--check') {
  console.log('ready');
} else {
  for (const file of files) {
    for (const schema of schemas) {
      const faults = faultsOf(file, schema);
      for (const fault of faults) console.error(`${basename(file)}, ${schema.name}: ${fault}`);
      if (faults.length > 0) process.exitCode = 1;
    }
  }
  if (files.length === 0) throw new Error('no dashboards');
  if (process.exitCode === undefined) console.log(`${files.length} dashboards fit ${schemas.map((s) => s.name).join(' and ')}`);
}
