// Lays out a network beside the page, which stays responsive meanwhile.
import { type LayoutJob, layOut } from "./layout";

onmessage = (event: MessageEvent<LayoutJob>) => postMessage(layOut(event.data));
