// kafkajs and @platformatic/kafka: the list of README.md, and groups.

import "./kafkajs.mjs";
import "./platformatic.mjs";
import { main } from "./tap.mjs";

await main();
